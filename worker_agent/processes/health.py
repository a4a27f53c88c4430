"""Whether the serving processes still serve, and the end of those that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from localai import logs
from localai.jobs.operation_rules import Cause, OperationError
from localai.metrics import UNHEALTHY_PROCESSES
from worker_agent.processes.dialing import port_of
from worker_agent.processes.rules import REFUSALS_THAT_END, Running, refusals_after
from worker_agent.processes.stall_rules import Activity, Heard, Silence, silence_after, stands_still

log = logs.get(__name__)

#: How long one look may take beside the intervals around it: every process has a few seconds for its answer.
LOOK_BOUND_S = 10.0


class EndProcess(Protocol):
    """Ends one process by its instance."""

    def __call__(self, instance: str, error: OperationError, grace_s: float | None = None) -> bool:
        """False if it does not run here. ``grace_s`` is the time between TERM and KILL; None means the usual one."""


class HealthCheck:
    """One look at all serving processes, remembering refusals and silence between looks."""

    def __init__(
        self,
        *,
        serving: Callable[[], list[Running]],
        hear: Callable[[Mapping[int, str | None]], Mapping[int, Heard]],
        activity: Callable[[Running], Activity | None],
        end_process: EndProcess,
        clock: Callable[[], float],
        interval_s: float,
        stall_window_s: float,
    ) -> None:
        self._serving, self._hear, self._activity, self._end_process = serving, hear, activity, end_process
        self._clock, self._stall_window_s = clock, stall_window_s
        self._longest_gap_s = 2 * interval_s + LOOK_BOUND_S
        self._refusals: dict[str, int] = {}
        self._silences: dict[str, Silence] = {}
        self._lock = threading.Lock()

    def look(self) -> None:
        """Ask each process; end one that refused three times in a row while it lives, and one that stands still."""
        serving = self._serving()
        heard = self._hear({port_of(running): running.secret for running in serving})
        refusals: dict[str, int] = {}
        silences: dict[str, Silence] = {}
        for running in serving:
            said = heard.get(port_of(running), Heard.NOTHING)
            refusals[running.process_instance] = self._judge_refusal(running, said)
            silence = self._judge_silence(running, said)
            if silence is not None:
                silences[running.process_instance] = silence
        with self._lock:
            self._refusals, self._silences = refusals, silences

    def problem(self) -> str | None:
        """A process that answered nothing at two looks in a row, in words; None if there is none."""
        with self._lock:
            silences = dict(self._silences)
        for running in self._serving():
            silence = silences.get(running.process_instance)
            if silence is not None and silence.looks > 1:
                return (
                    f"the process of {running.process_key} answers nothing and has used no processor time "
                    f"for {silence.lasted_s:.0f} s"
                )
        return None

    def _judge_refusal(self, running: Running, heard: Heard) -> int:
        before = self._refusals.get(running.process_instance, 0)
        if heard is Heard.NOTHING:
            return before
        refusals, over = refusals_after(before, refused=heard is Heard.REFUSED)
        if over:
            log.warning("a process refuses connections", extra=logs.fields(process=running.process_key))
            text = f"the process refused {REFUSALS_THAT_END} connections in a row on {running.address}"
            self._end(running, "refuses", text)
        return refusals

    def _judge_silence(self, running: Running, heard: Heard) -> Silence | None:
        activity = self._activity(running) if heard is Heard.NOTHING else None
        before = self._silences.get(running.process_instance)
        silence = silence_after(before, heard, activity, now=self._clock(), longest_gap_s=self._longest_gap_s)
        if silence is not None and stands_still(silence, window_s=self._stall_window_s):
            text = (
                f"the process of {running.process_key} stands still: for {silence.lasted_s:.0f} s it answered nothing "
                f"on {running.address} and used no processor time; LOCALAI_PROCESS_STALL_WINDOW allows "
                f"{self._stall_window_s:g} s"
            )
            log.warning("%s", text, extra=logs.fields(pid=running.pid, looks=silence.looks))
            # A stopped process takes no TERM.
            self._end(running, "stalled", text, grace_s=0.0)
        return silence

    def _end(self, running: Running, cause: str, text: str, grace_s: float | None = None) -> None:
        error = OperationError(cause=Cause.PROCESS_ENDED, message=text)
        if self._end_process(running.process_instance, error, grace_s):
            UNHEALTHY_PROCESSES.labels(running.model, cause).inc()
