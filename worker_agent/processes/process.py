"""How one process group of this agent is watched and ended.

"Ended" means that no process of the group is left, not that its leader is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress

from localai import logs
from worker_agent.hooks import Hooks
from worker_agent.processes import proc_table
from worker_agent.processes.logs import OutputFiles

log = logs.get(__name__)

#: How long a group may take to vanish after KILL: only a process stuck inside the kernel needs longer.
KILL_BOUND_S = 5.0
#: How long until a group without its leader is looked at again: soon at first, it is usually empty.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.01, 0.2
#: Pause before a process table that could not be read is read again.
_LOOK_AGAIN_S = 1.0
#: How often processes that left their group are looked for and killed before they are left to the next incarnation.
_ESCAPED_LOOKS = 100

Listener = Callable[["Group"], None]


class Group:
    """One group: its leader is a child of this process, and its number is the leader's pid."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        *,
        instance: str,
        name: str,
        grace_s: float,
        output: OutputFiles,
        hooks: Hooks,
    ) -> None:
        self.instance = instance
        self.name = name
        self.pid = popen.pid
        self.output = output
        #: The leader has ended.
        self.exited = threading.Event()
        #: No process of the group is left.
        self.gone = threading.Event()
        self._popen = popen
        self._grace_s = grace_s
        self._hooks = hooks
        self._signals = threading.Lock()
        self._ending = False
        self._killed = False
        #: KILL was sent and did not end the group within its bound.
        self.outlives_kill = False
        self._end_thread: threading.Thread | None = None
        self._listeners: list[Listener] = []

    @property
    def returncode(self) -> int | None:
        return self._popen.returncode

    def has_exited(self) -> bool:
        return self.exited.is_set()

    def watch(self, *listeners: Listener) -> None:
        """Begin to watch: each listener is called when the leader has ended, and again when the group is empty."""
        self._listeners.extend(listeners)
        threading.Thread(target=self._watch, name=f"process-{self.name}", daemon=True).start()

    def terminate(self) -> None:
        """Ask the group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Make the group end."""
        self._signal(signal.SIGKILL)

    def end(self, grace_s: float | None = None) -> bool:
        """TERM, wait, KILL. Whether the group is empty; False only when KILL did not help within its bound."""
        self._hooks.ending(self.instance)
        self.terminate()
        self._hooks.terminated(self.instance)
        grace = self._grace(grace_s)
        if not self.gone.wait(grace):
            if grace:
                text = "TERM did not end the group, killing it"
                log.warning(text, extra=logs.fields(process=self.name, pid=self.pid))
            self.kill()
        ended = self.gone.wait(KILL_BOUND_S)
        if not ended and not self.outlives_kill:
            self.outlives_kill = True
            text = "KILL did not end the group: it is stuck inside the system and keeps its memory"
            log.error(text, extra=logs.fields(process=self.name, pid=self.pid))
        return ended

    def end_soon(self, grace_s: float | None = None) -> None:
        """`end` on a thread of its own; at most one at a time."""
        with self._signals:
            if self.gone.is_set() or (self._end_thread is not None and self._end_thread.is_alive()):
                return
            self._end_thread = threading.Thread(target=self.end, args=(grace_s,), name=f"end-{self.name}", daemon=True)
            self._end_thread.start()

    def _grace(self, grace_s: float | None) -> float:
        if self._killed:
            return 0.0
        return self._grace_s if grace_s is None else grace_s

    def _signal(self, number: signal.Signals) -> None:
        with self._signals:
            # A group that is known to be empty may have lent its number to somebody else.
            if self.gone.is_set():
                return
            self._ending = True
            self._killed = self._killed or number == signal.SIGKILL
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def _watch(self) -> None:
        self._popen.wait()
        self.exited.set()
        self._tell()
        while not self._found_empty():
            self.gone.wait(_LOOK_AGAIN_S)
        self._hooks.ended(self.instance)
        self.gone.set()
        self._tell()

    def _found_empty(self) -> bool:
        """Whether the group is known to be empty: a process table that cannot be read is not an empty one."""
        try:
            self._empty()
        except Exception:
            log.exception("the group cannot be looked at now", extra=logs.fields(process=self.name, pid=self.pid))
            return False
        return True

    def _empty(self) -> None:
        """Return once the group is empty. What a leader that ended by itself left behind is killed at once."""
        ended_by_itself = not self._ending
        look_s = _FIRST_LOOK_S
        while members := proc_table.group_members(self.pid):
            if ended_by_itself:
                log.info("killing what the process left", extra=logs.fields(process=self.name, pids=members))
                self.kill()
            self.gone.wait(look_s)
            look_s = min(look_s * 2, _LAST_LOOK_S)
        for _ in range(_ESCAPED_LOOKS):
            escaped = proc_table.carriers(frozenset({self.instance}))
            if not escaped:
                return
            log.info("killing what left its group", extra=logs.fields(process=self.name, pids=escaped))
            for pid in escaped:
                _kill_one(pid)
            self.gone.wait(_FIRST_LOOK_S)

    def _tell(self) -> None:
        for listener in self._listeners:
            try:
                listener(self)
            except Exception:  # the others, and the rest of this thread's work, must not end with it
                log.exception("a listener failed", extra=logs.fields(process=self.name, pid=self.pid))


def _kill_one(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
