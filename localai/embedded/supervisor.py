"""How do the children of a list start, stay up and stop together?

One thread, the main one: parent-death signals are bound to the thread that forked. It sleeps until a signal, an ended
child, or the time of the next start.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NoReturn, TypeVar

from localai.embedded.children import Child
from localai.embedded.process import Process, describe_exit, last_lines, trim_log
from localai.embedded.rules import STABLE_AFTER_S, End, GiveUp, LeaveEnded, SetAside, after_end, backoff_s
from localai.embedded.signals import SignalWait
from localai.errors import StartRefused

#: How often a child that is not ready yet is asked again. A person waits for it.
PROBE_INTERVAL_S = 0.02
#: Longest sleep while nothing is due; a signal or an ended child ends it.
_IDLE_S = 60.0
#: Signals by which a person or the system ends a process that is sound.
_KILLED = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT})
#: How often the logs of running children are looked at.
LOG_LOOK_S = 2.0
#: How many of its last lines are shown when a start is refused.
_TAIL = 5

T = TypeVar("T")


class StopAsked(BaseException):
    """SIGTERM, SIGINT or SIGHUP came: leave the supervisor's context, which stops the children."""


class Supervisor:
    """A context that starts children, starts again what ended unasked, and on exit stops all in reverse order.

    ``say`` gets one line for each thing a person should know. Every method may raise `StopAsked`.
    """

    def __init__(self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._signals = SignalWait()
        self._processes: list[Process] = []
        self._trimmed_at = clock()

    def __enter__(self) -> Supervisor:
        self._signals.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for process in reversed(self._processes):
                self._stop(process)
        finally:
            self._signals.__exit__(kind, error, trace)

    def start(self, children: Sequence[Child]) -> None:
        """Start the children in order and return when all are ready. Raises StartRefused with the end of a log."""
        fresh = [Process(child, self._clock()) for child in children]
        for process in fresh:
            self._processes.append(process)
            self._spawn(process)
        while not all(process.ready for process in fresh):
            self._turn(PROBE_INTERVAL_S)
            for process in fresh:
                self._ask_ready(process)

    def call(self, work: Callable[[], T]) -> T:
        """The result of ``work``, done on another thread so that signals and ended children are seen meanwhile."""
        outcome: list[T] = []
        failure: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(work())
            except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
                failure.append(error)
            finally:
                self._signals.wake()

        thread = threading.Thread(target=run, name="supervisor-work", daemon=True)
        thread.start()
        while not outcome and not failure:
            self._turn(_IDLE_S)
        if failure:
            raise failure[0]
        return outcome[0]

    def wait_until(self, condition: Callable[[], bool], limit_s: float, interval_s: float = PROBE_INTERVAL_S) -> bool:
        """Whether ``condition`` came true within the limit."""
        end = self._clock() + limit_s
        while not condition():
            if self._clock() >= end:
                return False
            self._turn(interval_s)
        return True

    def watch(self) -> NoReturn:
        """Keep the children up until a stop signal comes."""
        while True:
            self._turn(_IDLE_S)

    def _turn(self, longest_s: float) -> None:
        now = self._clock()
        due = [process.again_at - now for process in self._processes if process.again_at is not None]
        self._signals.wait(min([longest_s, LOG_LOOK_S, *due]))
        if self._signals.stop_asked:
            raise StopAsked
        self._reap()
        self._trim_logs()
        for process in self._processes:
            if process.again_at is not None and process.again_at <= self._clock():
                self._spawn(process)

    def _trim_logs(self) -> None:
        if self._clock() < self._trimmed_at + LOG_LOOK_S:
            return
        self._trimmed_at = self._clock()
        for process in self._processes:
            if process.child.log is not None:
                trim_log(process.child.log)

    def _spawn(self, process: Process) -> None:
        try:
            process.start(self._clock())
        except (OSError, StartRefused) as error:
            if not process.ready:
                raise StartRefused(f"{process.child.name} cannot be started: {error}") from error
            # Full tables and full disks pass; what runs must not be stopped because of them.
            process.again_at = self._clock() + backoff_s(process.failures)
            process.failures += 1
            self._say(f"{process.child.name} cannot be started now, it is tried again: {error}")

    def _ask_ready(self, process: Process) -> None:
        if process.ready or process.popen is None:
            return
        if process.child.ready():
            process.ready = True
        elif self._clock() - process.first_start > process.child.ready_limit_s:
            raise self._refused(process, f"was not ready within {process.child.ready_limit_s:.0f} s")

    def _reap(self) -> None:
        for process in self._processes:
            if process.has_ended():
                self._ended(process, process.collect())
        if os.getpid() == 1:
            self._reap_strangers()

    def _ended(self, process: Process, code: int) -> None:
        now, child = self._clock(), process.child
        if now - process.started >= STABLE_AFTER_S:
            process.data_set_aside = False
        decision = after_end(
            End(
                ready=process.ready,
                restart=child.restart,
                failures=process.failures,
                up_s=now - process.started,
                trying_s=now - process.first_start,
                retry_start_s=child.retry_start_s,
                losable=child.set_aside is not None and not process.data_set_aside,
                killed=-code in _KILLED,
            )
        )
        how = f"ended with {describe_exit(code)}"
        if isinstance(decision, GiveUp):
            raise self._refused(process, how)
        if isinstance(decision, SetAside):
            self._set_aside(process, how)
            return
        told = f"{child.name} {how} after {now - process.started:.1f} s"
        if isinstance(decision, LeaveEnded):
            self._say(told + _log(child))
            return
        process.failures, process.again_at = decision.failures, now + decision.in_s
        self._say(f"{told}; starting it again in {decision.in_s:g} s{_log(child)}")

    def _set_aside(self, process: Process, how: str) -> None:
        child, now = process.child, self._clock()
        assert child.set_aside is not None
        process.data_set_aside, process.again_at = True, now
        # With empty data it is a new start, which has its whole time.
        process.failures, process.first_start = 0, now
        try:
            place = child.set_aside()
        except (OSError, StartRefused) as error:
            self._say(f"{child.name} {how}, and its data cannot be set aside: {error}{_log(child)}")
            return
        self._say(f"{child.name} {how} twice: its data was set aside in {place}, and it is started empty{_log(child)}")

    @staticmethod
    def _refused(process: Process, how: str) -> StartRefused:
        child = process.child
        lines = [f"{child.name} {how}{_log(child)}", *last_lines(child.log, _TAIL)]
        return StartRefused("\n  ".join(lines))

    def _reap_strangers(self) -> None:
        """As process 1 we are the parent of all whose parent ended; unreaped, their pids stay taken for ever."""
        own = {process.popen.pid for process in self._processes if process.popen is not None}
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in own:
                return  # one of ours is seen by the next turn, and what waits behind it by the turn after
            os.waitpid(found.si_pid, 0)

    def _stop(self, process: Process) -> None:
        process.again_at = None
        if process.popen is None:
            return
        process.ask_to_stop()
        end = self._clock() + process.child.stop_timeout_s
        while not process.has_ended():
            left = end - self._clock()
            if left <= 0:
                self._say(f"{process.child.name} did not stop within {process.child.stop_timeout_s:.0f} s: killed")
                process.kill_group()
                break
            self._signals.wait(left)
        process.collect()


def _log(child: Child) -> str:
    return f" (log: {child.log})" if child.log else ""
