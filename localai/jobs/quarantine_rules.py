"""Which failures in a row keep a revision of a model off a node, and what is said about it.

A *streak* is counted in the transaction that ends the attempt. One that is long enough is a quarantine: no further
attempt goes there until the config changes, somebody asks for a retry, or a load of it succeeds there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from localai.ids import JobId, NodeId
from localai.jobs.job import Job, State
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.operation_rules import Cause

#: What a node, a model and a backend do again when they are asked again. Not what befell one attempt from outside (its
#: owner or worker was lost, somebody cancelled it, its config changed), nor what time may cure by itself (a transfer
#: that broke, a file no source had, a full disk, a budget that is over), nor what comes before a node is chosen.
COUNTED = frozenset(
    {
        Cause.DIGEST_MISMATCH,
        Cause.BACKEND_UNKNOWN,
        Cause.BACKEND_UNAVAILABLE,
        Cause.BACKEND_INSTALL_DISABLED,
        Cause.BACKEND_INSTALL_FAILED,
        Cause.START_FAILED,
        Cause.START_TIMEOUT,
        Cause.LOAD_REFUSED,
        Cause.LOAD_TIMEOUT,
        Cause.PROCESS_ENDED,
        Cause.WORKER_SILENT,
    }
)
#: Counted, and over by itself: the node is tried again after the hold of a silent node, because no other load may
#: show that it takes orders again.
PASSING = frozenset({Cause.WORKER_SILENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """Failures in a row of one revision of a model on one node, all with one cause."""

    model: str
    revision: str
    node_id: NodeId
    #: Known where a query joined it.
    node_name: str = ""
    cause: str
    failures: int
    #: When the first and the last of them ended.
    since: datetime
    last_at: datetime
    #: Of the last one.
    error: str
    job_id: JobId

    def to_json(self) -> dict[str, object]:
        """What people see of a quarantine."""
        return {
            "model": self.model,
            "node_id": self.node_id,
            "node": self.node_name,
            "cause": self.cause,
            "failures": self.failures,
            "since": rfc3339_seconds(self.since),
            "last_error": self.error,
            "job_id": self.job_id,
        }


def counts(job: Job) -> bool:
    """Whether the end of an attempt speaks against its node."""
    placed = job.kind == MODEL_LOAD and job.node_id is not None and job.revision is not None
    return placed and job.state == State.FAILED and job.error_cause in COUNTED


def longer(before: Streak | None, job: Job) -> Streak:
    """The streak of a node after an attempt that counts; the statement `count_failure` does the same."""
    assert job.node_id is not None and job.revision is not None and job.finished_at is not None
    first = Streak(
        model=job.subject,
        revision=job.revision,
        node_id=job.node_id,
        cause=job.error_cause or "",
        failures=1,
        since=job.finished_at,
        last_at=job.finished_at,
        error=job.error or "",
        job_id=job.id,
    )
    if before is None or before.cause != first.cause:
        return first
    return replace(first, failures=before.failures + 1, since=before.since)


def quarantined(streak: Streak, after: int) -> bool:
    """Whether a streak keeps the model off the node; ``after`` 0 never does."""
    return 0 < after <= streak.failures


def has_passed(streak: Streak, now: datetime, silent_hold_s: float) -> bool:
    """Whether a streak counts no more, because its cause passes by itself; `streaks` leaves such rows out."""
    return streak.cause in PASSING and now >= streak.last_at + timedelta(seconds=silent_hold_s)


def against(streak: Streak | None, after: int) -> dict[str, Any]:
    """What a streak says against its node, as fields of a `NodeOffer`."""
    return {
        "quarantine": streak if streak is not None and quarantined(streak, after) else None,
        "lacks_backend": streak is not None and streak.cause == Cause.BACKEND_UNKNOWN,
    }


def silences(job: Job) -> bool:
    """Whether the end of an attempt shows that its node takes or reports no orders."""
    return job.node_id is not None and job.state == State.FAILED and job.error_cause == Cause.WORKER_SILENT


def blocking(quarantines: Sequence[Streak], serving: Collection[NodeId]) -> tuple[Streak, ...]:
    """The quarantines that leave a model no node: those of the serving nodes where every one of them has one."""
    there = {streak.node_id: streak for streak in quarantines if streak.node_id in serving}
    return tuple(there.values()) if serving and len(there) == len(set(serving)) else ()


def why_not_there(streak: Streak) -> str:
    """Why placement passes over a node; follows the node's name."""
    return f"is in quarantine for this model: {_history(streak)}"


def why_nowhere(model: str, streaks: Sequence[Streak]) -> str:
    """The error of a request for a model that no node may hold."""
    nodes = "; ".join(f"on node {streak.node_name} {_history(streak)}" for streak in streaks)
    last = max(streaks, key=lambda streak: streak.last_at)
    return (
        f"model {model} is in quarantine, and no other node may hold it: {nodes}. "
        f"A change of its config or `localai jobs retry {model}` lifts it. The last error: {last.error}"
    )


def rfc3339_seconds(moment: datetime) -> str:
    """A moment for people: whole seconds, UTC as Z."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _history(streak: Streak) -> str:
    return f"its last {streak.failures} loads failed with {streak.cause}, since {rfc3339_seconds(streak.since)}"
