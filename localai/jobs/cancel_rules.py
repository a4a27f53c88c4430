"""What a cancel of a job is answered, and which jobs a person may not cancel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import KINDS, Kinds


class CancelState(StrEnum):
    """What became of the work that a cancel names."""

    STOPPED = "stopped"  # it is a fact that nothing of it runs
    STOPPING = "stopping"  # recorded; the worker has not said yet that it has ended
    GONE = "gone"  # there is no such attempt, or it succeeded: nothing to cancel
    CONFLICT = "conflict"  # another attempt is current


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelAnswer:
    """The answer to a cancel of one job."""

    job_id: str
    kind: str
    subject: str
    state: CancelState
    #: Whole seconds after which another attempt may begin, whatever the worker says; None where nothing is pending.
    retry_after: int | None = None

    def to_json(self) -> dict[str, Any]:
        body = {"job_id": self.job_id, "kind": self.kind, "subject": self.subject, "state": self.state.value}
        return body if self.retry_after is None else {**body, "retry_after": self.retry_after}


def why_not(job: Job, kinds: Kinds = KINDS) -> str | None:
    """Why a person may not cancel a live job, with what to do instead; None where a cancel ends it."""
    kind = kinds.get(job.kind)
    if kind is None:
        return "this frontend does not know jobs of its kind"
    return kind.not_cancelled or None


def may_cancel(job: Job, kinds: Kinds = KINDS) -> bool:
    """Whether a cancel would end the job."""
    return job.live and why_not(job, kinds) is None


def end_of(job: Job) -> CancelState | None:
    """What a cancel has brought about, by the row after it; None where the job ended otherwise before."""
    if job.stop_state == StopState.PENDING:
        return CancelState.STOPPING
    if job.state != State.CANCELLED:
        return None
    # A worker that cannot confirm is given up after its window: nothing is left to ask for, and nothing is proven.
    return CancelState.STOPPED if job.stop_state == StopState.CONFIRMED else CancelState.GONE


def release_s(job: Job) -> int:
    """Whole seconds until the hold of a doomed job is over, at least 1."""
    return max(1, math.ceil(job.hold_left_s or 0.0))
