"""What is known of one run when it is over: rows, accepted moves, and facts that no row holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from localai.jobs.ports import EventRow


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The part of a job's last row that the rules are about."""

    id: str
    kind: str
    subject: str
    slot: int
    parent_id: str | None
    generation: int
    op_generation: int | None
    node_id: str | None
    state: str
    revision: str | None
    stop_state: str
    hold_until: datetime | None
    error_cause: str | None
    created_at: datetime
    finished_at: datetime | None

    @property
    def doomed(self) -> bool:
        return self.state in ("failed", "cancelled")


@dataclass(slots=True, kw_only=True)
class ProcessFacts:
    """One model process as its machine knew it."""

    instance: str
    job_id: str
    op_generation: int
    model: str
    slot: int
    node_id: str
    started: datetime
    ready: datetime | None = None
    #: When its agent decided to end it; None for one that ended by itself or with its machine.
    decided: datetime | None = None
    ended: datetime | None = None
    #: READY was said after the decision to end it.
    ready_though_ending: bool = False
    #: Whether every staged file had the promised digest when it started.
    verified: bool = True

    @property
    def secret(self) -> str:
        """The process answers only calls that send it."""
        return f"secret-of-{self.instance}"


@dataclass(frozen=True, slots=True)
class Registered:
    node_id: str
    incarnation: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Revised:
    model: str
    revision: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Routed:
    """A replica row became `loaded`."""

    job_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class StopSent:
    """Somebody sent an exact stop."""

    job_id: str
    instance: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class TakenAway:
    """A sweep ended, requeued or adopted a job; until when its owner's lease ran by the row."""

    job_id: str
    at: datetime
    lease_expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Adopted:
    """A load got another owner. ``heard_at``: when its agent last claimed or reported it; None where it never did."""

    job_id: str
    at: datetime
    sent: bool
    heard_at: datetime | None


@dataclass(frozen=True, slots=True)
class StaleWrite:
    """A move of an owner that did not hold the row was accepted."""

    job_id: str
    at: datetime
    move: str
    by: str


@dataclass(frozen=True, slots=True)
class CauseRead:
    """What a waiter of an attempt was told."""

    job_id: str
    cause: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class CancelTold:
    """What somebody who cancelled a job was answered."""

    job_id: str
    state: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Answered:
    """A request for one model, and the model of the process that answered it."""

    asked: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Away:
    """An agent was dead or frozen."""

    node_id: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The windows that the run lived by, in seconds."""

    stop_s: float = 150.0
    report_s: float = 15.0
    kill_ttl_s: float = 90.0
    #: From the watchdog's due moment to the end of the group: its interval, the grace, the slowest clock.
    kill_slack_s: float = 16.0
    #: How far two readings of the database's clock within one statement may stand apart.
    clock_s: float = 0.05
    #: How young a report has to be for an adoption; None: nothing is adopted.
    adopt_fresh_s: float | None = 15.0


@dataclass(slots=True, kw_only=True)
class History:
    """One run. What a source does not know stays empty, and the rules about it hold by themselves."""

    bounds: Bounds
    jobs: Mapping[str, JobFacts]
    events: Sequence[EventRow]
    until: datetime
    processes: Sequence[ProcessFacts] = ()
    registered: Sequence[Registered] = ()
    revised: Sequence[Revised] = ()
    routed: Sequence[Routed] = ()
    stops: Sequence[StopSent] = ()
    taken_away: Sequence[TakenAway] = ()
    adopted: Sequence[Adopted] = ()
    stale_writes: Sequence[StaleWrite] = ()
    causes: Sequence[CauseRead] = ()
    cancels: Sequence[CancelTold] = ()
    answers: Sequence[Answered] = ()
    away: Sequence[Away] = ()
    #: What was still open when the run had had all the time it needs; None where nobody waited for quiet.
    not_quiet: Sequence[str] | None = None
    _by_job: dict[str, list[EventRow]] = field(default_factory=dict)

    def events_of(self, job_id: str) -> list[EventRow]:
        """Accepted moves of one job, oldest first."""
        if not self._by_job:
            for event in self.events:
                self._by_job.setdefault(event.job_id, []).append(event)
        return self._by_job.get(job_id, [])

    def processes_of(self, job: JobFacts) -> list[ProcessFacts]:
        """The processes of a job's operation."""
        return [one for one in self.processes if (one.job_id, one.op_generation) == (job.id, job.op_generation)]

    def was_away(self, node_id: str, since: datetime, until: datetime) -> bool:
        """Whether an agent did not run at some moment between the two."""
        return any(one.node_id == node_id and one.since < until and one.until > since for one in self.away)

    def unless_away(self, node_id: str, due: datetime, needs_s: float) -> datetime:
        """When something is done that is due then and needs so long, by an agent that goes on with it once it is back."""
        for one in sorted(self.away, key=lambda one: one.since):
            if one.node_id == node_id and one.since < due and one.until > due - timedelta(seconds=needs_s):
                due = max(due, one.until + timedelta(seconds=needs_s))
        return due
