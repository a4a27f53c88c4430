"""What one job is: the values of its row, and the windows it lives by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from localai.ids import JobId, NodeId, OwnerId, ProcessInstance
from localai.jobs.operation_rules import OpState, Phase
from localai.settings import Settings


class State(StrEnum):
    """The engine's states, the same for every kind of job."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


LIVE = frozenset({State.QUEUED, State.RUNNING})
TERMINAL = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})
#: Terminal without success. An agent that asks is told to stop, also when its process is READY; for ever.
DOOMED = frozenset({State.FAILED, State.CANCELLED})


class StopState(StrEnum):
    """Whether remote work of a doomed job may still run. ``pending`` ends with proof, never with time."""

    NONE = "none"
    PENDING = "pending"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One attempt. Times are the database's; ``read_at`` is its clock when the row was read.

    It has no slots, so that `localai.jobs.copies` can copy all its values at once.
    """

    id: JobId
    kind: str
    subject: str
    slot: int = 0
    parent_id: JobId | None = None
    generation: int
    state: State = State.QUEUED
    #: Belongs to the kind; the word a load shows as ``state`` in ``load-status``.
    phase: Phase = Phase.PENDING
    args: Mapping[str, Any] = field(default_factory=dict)
    revision: str | None = None
    owner: OwnerId | None = None
    lease_expires_at: datetime | None = None
    #: Owners that took it, and owners that went on with it after one was lost. Where the one before had given it back,
    #: neither counts: a bound on lost owners is there against work that kills them.
    attempts: int = 0
    adoptions: int = 0
    given_back: bool = False
    dispatch_window_s: float | None = None
    dispatch_expires_at: datetime | None = None

    node_id: NodeId | None = None
    #: Known where a query joined it.
    node_name: str | None = None
    op_generation: int | None = None
    node_incarnation: int | None = None
    #: Sent to an agent of an older version, which does not claim: it may work on it, and only time ends its stop.
    legacy: bool = False
    op_state: OpState | None = None
    op_seen_at: datetime | None = None
    op_claim_seq: int | None = None
    op_missing: int = 0
    op_error: Mapping[str, Any] | None = None
    placed_at: datetime | None = None
    process_instance: ProcessInstance | None = None
    address: str | None = None
    identity: str | None = None

    progress: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    file_index: int = 0
    files_total: int = 0
    message: str | None = None
    phase_started_at: datetime | None = None
    progress_at: datetime | None = None

    cancel_requested_at: datetime | None = None
    stop_state: StopState = StopState.NONE
    stop_deadline: datetime | None = None
    stop_attempts: int = 0
    stop_next_at: datetime | None = None
    hold_until: datetime | None = None
    error_cause: str | None = None
    error: str | None = None
    error_detail: Mapping[str, Any] | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    read_at: datetime

    @property
    def live(self) -> bool:
        return self.state in LIVE

    @property
    def held(self) -> bool:
        """Whether this attempt keeps the subject from a new one, as of the time it was read."""
        return self.hold_until is not None and self.hold_until > self.read_at

    @property
    def hold_left_s(self) -> float | None:
        """Seconds of the hold that are left, never more than it was made for: the clock may have stepped back since."""
        if self.hold_until is None or not self.held:
            return None
        begun = max(self.read_at, self.finished_at or self.read_at)
        return (self.hold_until - begun).total_seconds()

    def lease_valid(self, now: datetime) -> bool:
        return self.lease_expires_at is not None and self.lease_expires_at > now


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The time limits of the engine, in seconds."""

    lease_s: float = 30.0
    dispatch_s: float = 10.0
    dispatch_max_s: float = 160.0
    stop_s: float = 150.0
    report_s: float = 15.0
    #: The stop window of work that was sent to an agent which neither claims, nor reports, nor confirms.
    legacy_s: float = 2700.0
    #: An operation that was sent and not claimed, or claimed and not reported, for this long has no worker.
    silent_s: float = 105.0
    #: A node that took no order gets the next one only after this long, or if no other node fits.
    silent_hold_s: float = 300.0
    #: A report this young proves that an agent works on a load whose owner is lost; None: no load is adopted.
    adopt_fresh_s: float | None = 15.0
    #: Longest time between two sends of one stop while the hold lasts, and after it.
    stop_retry_max_s: float = 15.0
    stop_retry_late_s: float = 300.0

    @classmethod
    def of(cls, settings: Settings) -> Windows:
        return cls(
            lease_s=settings.job_lease_ttl_s,
            dispatch_s=settings.dispatch_window_s,
            dispatch_max_s=settings.dispatch_window_max_s,
            stop_s=settings.stop_window_s,
            report_s=settings.report_window_s,
            legacy_s=settings.legacy_window_s,
            silent_s=settings.silent_worker_s,
            silent_hold_s=settings.stale_node_threshold_s,
            adopt_fresh_s=settings.fresh_report_s if settings.job_adoption else None,
            stop_retry_max_s=settings.report_window_s,
            stop_retry_late_s=settings.stop_window_s * 2,
        )


def after(now: datetime, seconds: float) -> datetime:
    """The moment ``seconds`` later."""
    return now + timedelta(seconds=seconds)
