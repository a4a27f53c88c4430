"""When the agent reports, and what it does with the answers.

Every interval while an operation is not complete, else with the heartbeat; at once when a stage or phase changed or a
process ended. What changes while a report is under way goes with the next one, so changes coalesce by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from localai import logs
from localai.errors import LocalAIError, NotAuthorized, Replaced
from localai.jobs.operation_rules import Cause, OperationError, OpState, Report
from worker_agent.frontends import Frontends, Registered
from worker_agent.hooks import Hooks
from worker_agent.operations import Operations

log = logs.get(__name__)

#: Wait after the first report that nobody took; doubles up to the report interval.
RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class Intervals:
    """Seconds between two reports."""

    busy_s: float
    quiet_s: float


class Reporter:
    """The thread that asks the rows about everything this incarnation runs."""

    def __init__(
        self,
        *,
        frontends: Frontends,
        operations: Operations,
        registered: Registered,
        intervals: Intervals,
        news: threading.Event,
        replaced: Callable[[str], None],
        hooks: Hooks | None = None,
    ) -> None:
        self._frontends = frontends
        self._operations = operations
        self._registered = registered
        self._intervals = intervals
        self._news = news
        self._replaced = replaced
        self._hooks = hooks or Hooks()
        self._seq = 0
        self._waiting = False
        #: Jobs that the newest report calls READY.
        self._ready: list[str] = []
        self._seq_lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread. A report under way is waited for at most that long."""
        self._stopping.set()
        self._news.set()
        self._thread.join(timeout_s)

    def last_seq(self) -> int:
        """The number of the newest report that was begun."""
        with self._seq_lock:
            return self._seq

    def say_the_end(self) -> None:
        """Report once more, and that this agent ends in good order. Losing both costs only time."""
        if self.report_once():
            try:
                self._frontends.deregister(self._registered)
            except LocalAIError as error:
                log.warning("the end was not taken", extra=logs.fields(reason=error.message))

    def report_once(self) -> bool:
        """Send one full report and take its answers. Whether a frontend took it.

        A node that waits for approval has nothing to report, so it just reports at the usual times.
        """
        try:
            answer, sent_at = self._frontends.report(self._registered.node_id, self._build)
        except Replaced as error:
            self._replaced(error.message)
            return False
        except NotAuthorized as error:
            self._say_waiting(error.message)
            return True
        except LocalAIError as error:
            log.warning("report not taken", extra=logs.fields(reason=error.message))
            return False
        self._waiting = False
        for job_id in self._ready:
            self._hooks.reported(job_id)
        self._operations.apply(answer.operations, sent_at)
        for instance in answer.stop_processes:
            self._operations.end_process(
                instance, OperationError(cause=Cause.CANCELLED, message="no row wants this process any more")
            )
        return True

    def _say_waiting(self, reason: str) -> None:
        if not self._waiting:
            log.info("reports are not taken yet", extra=logs.fields(reason=reason))
        self._waiting = True

    def _build(self) -> Report:
        with self._seq_lock:
            self._seq += 1
            operations, processes = self._operations.snapshot()
            self._ready = [operation.job_id for operation in operations if operation.op_state is OpState.READY]
            return Report(
                incarnation=self._registered.incarnation, seq=self._seq, operations=operations, processes=processes
            )

    def _run(self) -> None:
        retry_s = RETRY_S
        while not self._stopping.is_set():
            self._news.clear()
            try:
                taken = self.report_once()
            except Exception:
                log.exception("a report failed")
                taken = False
            interval_s = self._intervals.busy_s if self._operations.incomplete() else self._intervals.quiet_s
            if taken:
                retry_s = RETRY_S
                self._news.wait(interval_s)
            else:
                self._stopping.wait(min(retry_s, interval_s))
                retry_s = min(retry_s * 2, self._intervals.busy_s)
