"""Answers to stop requests of the node link: the outcome after the process group has ended.

The answer proves nothing to a frontend. The report that follows at once does, because it carries the node credential.
"""

from __future__ import annotations

from collections.abc import Callable

from localai import logs
from localai.bus.ports import Payload
from localai.errors import LocalAIError
from localai.jobs.operation_rules import StopAnswer, StopOutcome, StopRequest
from worker_agent.hooks import Hooks
from worker_agent.operations import Operations

log = logs.get(__name__)


class StopNotDone(LocalAIError):
    """The processes have not ended yet; ask again."""


class StopResponder:
    """Answers `model.stop`."""

    def __init__(
        self,
        operations: Operations,
        *,
        incarnation: int,
        bound_s: float,
        report_now: Callable[[], object],
        hooks: Hooks | None = None,
    ) -> None:
        """``report_now`` asks for a report without waiting for its interval."""
        self._operations = operations
        self._report_now = report_now
        self._incarnation = incarnation
        self._bound_s = bound_s
        self._hooks = hooks or Hooks()

    def __call__(self, payload: Payload) -> Payload:
        """A StopAnswer for a StopRequest. Raises StopNotDone, also for a request that cannot be read."""
        try:
            request = StopRequest.from_json(payload)
        except TypeError as error:
            raise StopNotDone(f"the stop request cannot be read: {error}") from None
        return self.stop(request).to_json()

    def stop(self, request: StopRequest) -> StopAnswer:
        """Stop exactly what is named, and answer once it has ended."""
        self._hooks.stopping(request.job_id)
        stopping = self._operations.stop(request)
        if stopping.must_end and not self._operations.wait_ended(stopping.key, stopping.instance, self._bound_s):
            raise StopNotDone(f"the process group has not ended within {self._bound_s:g} s")
        self._report_now()
        self._hooks.answering(request.job_id)
        terminated = [stopping.instance] if stopping.must_end and stopping.instance else []
        log.info(
            "stop answered",
            extra=logs.fields(job_id=request.job_id, outcome=stopping.outcome.value, terminated=terminated),
        )
        outcome = StopOutcome(stopping.outcome)
        return StopAnswer(outcome=outcome, incarnation=self._incarnation, terminated=terminated)
