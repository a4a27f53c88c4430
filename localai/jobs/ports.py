"""What the job engine asks of whoever keeps the rows, carries the wake-ups and holds the node link.

Each method of a store is one transaction. It makes one move of ``localai.jobs.rules`` with all guards in the
statement, writes the event of the move, and returns the row as it is now, or None where the guards did not hold: then
somebody else was faster, and the caller reads the row and believes only it. Every method raises StorageUnavailable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from localai.ids import JobId, NodeId, OwnerId
from localai.jobs.event_rules import Event, Fail, Progress
from localai.jobs.job import Job, State
from localai.jobs.operation_rules import Report
from localai.jobs.report_rules import Findings


class Wakeups(Protocol):
    """Nudges by queue. None of them may be needed: the sweep finds what a lost one was about.

    Called after the commit; bounded in time, and never raises because of the broker.
    """

    def wake_control(self, job_id: JobId, generation: int) -> None:
        """Some control worker takes the job's next step."""

    def send_order(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None:
        """The agent of the node claims the operation."""

    def forget_node(self, node_id: NodeId) -> None:
        """Remove what lies in the queue of a node that is gone for good."""


class Intake(StrEnum):
    """What became of a request for a job."""

    CREATED = "created"
    LIVE = "live"  # attached to the attempt that is live
    HELD = "held"  # an attempt failed and its hold lies ahead
    LOADED = "loaded"  # a load is asked for, and the model serves already
    ORPHAN = "orphan"  # it would only serve its parent, and that has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """What a request for a job names. ``subject`` is what it is about: at most one live attempt for each."""

    kind: str
    subject: str
    slot: int = 0
    revision: str | None = None
    parent_id: JobId | None = None
    node_id: NodeId | None = None
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows. ``before`` is the creation time and id of the last row of the page before."""

    state: State | None = None
    kind: str | None = None
    subject: str | None = None
    node_id: NodeId | None = None
    parent_id: JobId | None = None
    limit: int = 50
    before: tuple[datetime, JobId] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """One accepted move, as it was written in the transaction of the move."""

    id: int
    job_id: JobId
    at: datetime
    event: str
    state: str
    phase: str | None
    generation: int
    op_generation: int | None
    actor: str | None
    node_id: NodeId | None
    detail: Mapping[str, Any] | None


class JobReads(Protocol):
    """Rows as they are committed."""

    def get(self, job_id: JobId) -> Job | None: ...
    def list(self, wanted: JobFilter) -> Sequence[Job]:
        """Newest first."""

    def events(self, job_id: JobId, after: int = 0) -> Sequence[EventRow]:
        """Events with an id above ``after``, oldest first."""

    def live(self, kind: str, subject: str) -> Job | None:
        """The live attempt, if there is one."""


class JobIntake(Protocol):
    """What anybody may begin."""

    def request(self, new: NewJob) -> tuple[Intake, Job]:
        """Attach to the live attempt, obey the hold, or create; under the lock of the subject's row."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What one round of renewals did. A lease in neither set was lost: its job was ended or replaced."""

    renewed: frozenset[JobId]
    #: Still ours, but somebody held the row at that moment: the next round renews it.
    untouched: frozenset[JobId]


class OwnerMoves(Protocol):
    """What the owner of a job may do, fenced by generation and owner."""

    def take(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None: ...
    def adopt(self, owner: OwnerId, limit: int) -> Sequence[Job]:
        """Give loads whose owner is lost to this one, where a fresh report lists them or nothing was sent yet."""

    def release(self, owner: OwnerId) -> Sequence[Job]:
        """End the leases of an owner that ends, where another one can go on; the rows as they are now."""

    def renew(self, owner: OwnerId, held: Collection[tuple[JobId, int]]) -> Renewal:
        """Renew all leases of one process in one statement; never revives a lapsed one."""

    def owned(self, owner: OwnerId) -> Sequence[Job]:
        """The running jobs whose row names this owner."""

    def progress(self, job_id: JobId, event: Progress) -> Job | None: ...
    def finish(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        """Success of a kind whose work the owner did itself."""

    def fail(self, job_id: JobId, event: Fail) -> Job | None: ...
    def resend_due(self, owner: OwnerId, limit: int) -> Sequence[Job]:
        """Double the dispatch window of unclaimed orders of this owner on healthy nodes; the orders to send again."""


class SweepMoves(Protocol):
    """What any sweep may do to rows whose time is over. At most ``limit`` rows; rows locked elsewhere are skipped."""

    def lapse(self, limit: int) -> Sequence[Job]:
        """End or requeue running jobs whose lease lapsed, as their kind says; the rows as they are now.

        What an owner may adopt is left to it.
        """

    def due_queued(self, limit: int) -> Sequence[Job]:
        """Double the dispatch window of queued jobs that nobody took; the jobs to step."""

    def due_stops(self, limit: int) -> Sequence[Job]:
        """Set the next time of pending stops that are due; the stops to send."""

    def give_up_stops(self, limit: int) -> Sequence[Job]:
        """Let go of stops of work on legacy nodes whose window is over; the rows as they are now."""

    def prune(self, older_than_s: float, limit: int) -> int:
        """Delete terminal jobs that ended long ago and that nothing refers to; how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """``job`` is the row after the attempt, None where there is none; ``granted`` whether the claim holds."""

    granted: bool
    job: Job | None
    #: False where the node row names another incarnation.
    current_incarnation: bool


#: A move that a store accepted, and the row after it.
Moved = tuple[type[Event], Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """What a report changed, and the rows that answer it."""

    findings: Findings = field(default_factory=Findings)
    #: Rows the report is about, after the changes.
    rows: Mapping[JobId, Job] = field(default_factory=dict)
    moved: Sequence[Moved] = ()
    routing_changed: bool = False
    #: False where the node's row names another incarnation: nothing was changed.
    current_incarnation: bool = True
    node_known: bool = True


class OperationMoves(Protocol):
    """What an agent may do, fenced by operation, node and incarnation."""

    def claim(
        self, node_id: NodeId, incarnation: int, job_id: JobId, op_generation: int, seq: int | None
    ) -> ClaimResult: ...
    def report(self, node_id: NodeId, report: Report) -> ReportResult:
        """Apply a full report: progress, ends, confirmations, replicas that are gone, processes nobody owns."""

    def stages(self, node_id: NodeId, path: str) -> bool:
        """Whether the order of a claimed operation of this node names the file."""
