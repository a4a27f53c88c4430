"""What is said about one attempt: to ``load-status``, to a request that waited too long, to a waiter of a failure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localai.errors import ModelHeld, ModelQuarantined
from localai.jobs.effect_rules import CANCELLED
from localai.jobs.job import Job, State, StopState
from localai.jobs.operation_rules import Phase
from localai.jobs.quarantine_rules import Streak, why_nowhere
from localai.jobs.views import rfc3339, seconds_left
from localai.loads.eta_rules import LoadDurations, eta

#: `Retry-After` while a load goes on.
RETRY_LEAST_S, RETRY_MOST_S = 5, 300
#: `Retry-After` where nobody can say how long it takes.
RETRY_UNKNOWN_S = 10
FAILED = "failed"
_DOING = {
    Phase.PENDING: "is waiting for a node",
    Phase.INSTALLING: "is getting its backend installed",
    Phase.STAGING: "is staging",
    Phase.LOADING: "is loading",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStatus:
    """One attempt as people and clients see it."""

    model: str
    job_id: str
    #: The engine's state: queued, running, succeeded, failed, cancelled.
    job_state: str
    #: pending, installing, staging, loading; failed while the attempt holds the model.
    state: str
    node: str | None
    progress: float
    bytes_sent: int
    total_bytes: int
    file_index: int
    total_files: int
    eta_seconds: int | None
    #: Four of five loads end between them; known where loads like it have finished.
    eta_low: int | None
    eta_high: int | None
    attempts: int
    #: How often another owner went on with it.
    adoptions: int
    lease_expires_in: int | None
    cancel_requested: bool
    stopping: bool
    last_error: str | None
    error_cause: str | None
    stop_deadline: datetime | None
    #: Whole seconds until another attempt may begin; None while the load goes on.
    retry_after: int | None
    #: Nodes that this model is kept off after failures in a row.
    quarantined: tuple[Streak, ...] = ()
    #: No other node may hold it: no attempt is made until somebody lifts them.
    blocked: bool = False

    def to_json(self) -> dict[str, Any]:
        """The ``loading`` object: what does not apply is left out."""
        body: dict[str, Any] = {
            "model": self.model,
            "state": self.state,
            "node": self.node,
            "progress": self.progress,
            "bytes_sent": self.bytes_sent,
            "total_bytes": self.total_bytes,
            "file_index": self.file_index,
            "total_files": self.total_files,
            "eta_seconds": self.eta_seconds,
            "eta_low": self.eta_low,
            "eta_high": self.eta_high,
            "job_id": self.job_id,
            "attempts": self.attempts,
            "adoptions": self.adoptions or None,
            "lease_expires_in": self.lease_expires_in,
            "cancel_requested": self.cancel_requested or None,
            "stopping": self.stopping or None,
            "last_error": self.last_error,
            "error_cause": self.error_cause,
            "stop_deadline": rfc3339(self.stop_deadline) if self.stop_deadline else None,
            "retry_after": self.retry_after,
            "quarantined": [streak.to_json() for streak in self.quarantined] or None,
        }
        return {name: value for name, value in body.items() if value is not None}

    def message(self) -> str:
        """One sentence for the error of a 503."""
        if self.blocked:
            return why_nowhere(self.model, self.quarantined)
        if self.state == FAILED:
            what = "was cancelled" if self.job_state == State.CANCELLED else "failed"
            said = self.last_error if self.last_error != CANCELLED else None  # which adds nothing
            reason = f": {said}" if said else ""
            return f"the load of model {self.model} {what}{reason}"
        doing = _DOING[Phase(self.state)]
        if self.state == Phase.PENDING and self.total_bytes:
            doing = "is being fetched to the frontend"
        where = f" on node {self.node}" if self.node else ""
        facts = []
        if self.total_bytes:
            facts.append(f"{self.progress:.0f}%")
        if self.eta_seconds is not None:
            facts.append(f"ETA ~{_roughly(self.eta_seconds)}")
        return f"model {self.model} {doing}{where}" + (f" ({', '.join(facts)})" if facts else "")

    def retry_after_header(self) -> int:
        """Whole seconds: what is left of the hold, or the expected rest of the load between 5 and 300."""
        if self.retry_after is not None:
            return max(1, self.retry_after)
        if self.blocked:
            return RETRY_MOST_S
        expected = self.eta_seconds if self.eta_seconds is not None else RETRY_UNKNOWN_S
        return min(max(expected, RETRY_LEAST_S), RETRY_MOST_S)

    def refusal(self) -> ModelHeld:
        """The error of a request for a model that takes no new attempt now."""
        kind = ModelQuarantined if self.blocked else ModelHeld
        return kind(self.message(), self.to_json(), self.retry_after_header())


def quarantined_status(model: str, streaks: Sequence[Streak]) -> LoadStatus:
    """The status of a model that no node may hold: its last attempt failed, and there will be no other."""
    last = max(streaks, key=lambda streak: streak.last_at)
    return LoadStatus(
        model=model,
        job_id=last.job_id,
        job_state=State.FAILED.value,
        state=FAILED,
        node=None,
        progress=0.0,
        bytes_sent=0,
        total_bytes=0,
        file_index=0,
        total_files=0,
        eta_seconds=None,
        eta_low=None,
        eta_high=None,
        attempts=0,
        adoptions=0,
        lease_expires_in=None,
        cancel_requested=False,
        stopping=False,
        last_error=last.error,
        error_cause=last.cause,
        stop_deadline=None,
        retry_after=None,
        quarantined=tuple(streaks),
        blocked=True,
    )


def load_status(job: Job, install: Job | None = None, history: Sequence[LoadDurations] = ()) -> LoadStatus:
    """The status of an attempt. ``install`` is the live job that fetches its files; its bytes are shown as its own.

    ``history`` is what finished loads of the model took on nodes of the same class.
    """
    fetching = install if job.live and job.op_generation is None else None
    moving = fetching or job
    left = seconds_left(job.lease_expires_at, job.read_at) if job.state == State.RUNNING else None
    hold_s = job.hold_left_s
    ended_badly = job.state in (State.FAILED, State.CANCELLED)
    stopping = job.stop_state == StopState.PENDING
    rest = eta(job, history)
    return LoadStatus(
        model=job.subject,
        job_id=job.id,
        job_state=job.state.value,
        state=FAILED if ended_badly else job.phase.value,
        node=job.node_name,
        progress=percent_by_file(fetching) if fetching else percent(job),
        bytes_sent=moving.bytes_done,
        total_bytes=moving.bytes_total,
        file_index=moving.file_index,
        total_files=moving.files_total,
        eta_seconds=rest.seconds if rest else None,
        eta_low=rest.low if rest else None,
        eta_high=rest.high if rest else None,
        attempts=job.attempts,
        adoptions=job.adoptions,
        lease_expires_in=None if left is None else math.floor(left),
        cancel_requested=job.cancel_requested_at is not None,
        stopping=stopping,
        last_error=error_text(job),
        error_cause=job.error_cause,
        stop_deadline=job.stop_deadline if stopping else None,
        retry_after=None if hold_s is None else max(1, math.ceil(hold_s)),
    )


def percent(job: Job) -> float:
    """How much of the bytes of this phase has moved, 0 to 100."""
    if job.bytes_total <= 0:
        return 0.0
    return round(min(100.0, 100.0 * job.bytes_done / job.bytes_total), 1)


def percent_by_file(job: Job) -> float:
    """The same where bytes are counted for one file at a time."""
    if job.files_total <= 0 or job.file_index <= 0:
        return 0.0
    return round(min(100.0, ((job.file_index - 1) * 100 + percent(job)) / job.files_total), 1)


def error_text(job: Job) -> str | None:
    """The error with the last words of the process, which often say more than the error."""
    tail = (job.error_detail or {}).get("stderr_tail") if job.error_detail else None
    if not job.error or not tail or str(tail) in job.error:
        return job.error
    return f"{job.error}\n{tail}"


def _roughly(seconds: int) -> str:
    if seconds < 90:
        return f"{seconds}s"
    minutes = round(seconds / 60)
    return f"{minutes}m" if minutes < 90 else f"{minutes // 60}h{minutes % 60:02}m"
