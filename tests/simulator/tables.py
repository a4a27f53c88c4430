"""The rows of the database as values in memory, and the one way a job moves in them: `rules.decide`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from localai.ids import JobId, NodeId, ProcessInstance, ReplicaId
from localai.jobs import rules
from localai.jobs.copies import changed
from localai.jobs.event_rules import Event
from localai.jobs.job import DOOMED, LIVE, Job, StopState, Windows
from localai.jobs.ports import EventRow
from localai.jobs.quarantine_rules import Streak, counts, longer, silences
from localai.jobs.rows import EVENT_NAMES
from localai.nodes.holding_rules import Holdings
from localai.nodes.rules import Figures, Status

TERMINAL_EVENTS = frozenset({"succeeded", "failed", "cancelled"})


@dataclass(slots=True)
class Subject:
    last_generation: int = 0
    revision: str | None = None
    revision_seq: int = 0


@dataclass(slots=True, kw_only=True)
class Node:
    id: NodeId
    name: str
    created_at: datetime
    status: Status = Status.PENDING
    status_at: datetime
    approved: bool = False
    incarnation: int = 0
    report_seq: int = 0
    max_replicas_per_model: int = 1
    figures: Figures = field(default_factory=Figures)
    holdings: Holdings = field(default_factory=Holdings)
    last_heartbeat: datetime | None = None
    doubted_at: datetime | None = None
    credential_hash: str = ""
    reports_operations: bool = True
    address: str | None = None
    http_address: str | None = None
    secret_hash: str | None = None
    moved_incarnation: int = 0
    contested_at: datetime | None = None
    refused: str | None = None
    pending_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    id: ReplicaId
    model: str
    slot: int
    node_id: NodeId
    job_id: JobId
    op_generation: int
    backend: str
    revision: str
    state: str
    reserved_bytes: int
    updated_at: datetime
    loaded_at: datetime | None = None
    node_incarnation: int | None = None
    process_instance: ProcessInstance | None = None
    address: str | None = None
    identity: str | None = None
    process_secret: str | None = None


class Seen:
    """What happens to the rows, for whoever watches them. Does nothing by itself."""

    def moved(self, event: Event, before: Job, after: Job) -> None:
        """A move was accepted."""

    def routed(self, replica: Replica) -> None:
        """A replica became routable."""

    def revised(self, model: str, revision: str) -> None:
        """A model has another revision."""

    def registered(self, node_id: NodeId, incarnation: int) -> None:
        """A life of an agent began."""


class Tables:
    """Every table. What calls it is one transaction: nothing here waits, so nothing comes between."""

    def __init__(
        self, windows: Windows, *, clock: Callable[[], datetime], new_id: Callable[[], str], seen: Seen | None = None
    ) -> None:
        self.windows, self.now, self.new_id, self.seen = windows, clock, new_id, seen or Seen()
        self.subjects: dict[tuple[str, str], Subject] = {}
        #: `subjects.revision_at` of models.
        self.revised_at: dict[str, datetime] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.jobs: dict[JobId, Job] = {}
        #: Jobs that a pass over all rows can find: live ones and those whose stop is pending.
        self.open: dict[JobId, None] = {}
        self.job_events: list[EventRow] = []
        self.replicas: dict[tuple[str, int], Replica] = {}
        #: Failures in a row by model, revision and node.
        self.streaks: dict[tuple[str, str | None, NodeId | None], Streak] = {}
        #: Nodes that took no order, since when.
        self.silent_nodes: dict[NodeId, datetime] = {}
        self.routing_version = 1

    # Jobs

    def read(self, job_id: JobId) -> Job | None:
        """The row with the name of its node and the clock of this moment."""
        job = self.jobs.get(job_id)
        return None if job is None else self.as_read(job)

    def as_read(self, job: Job) -> Job:
        node = self.nodes.get(job.node_id) if job.node_id else None
        return changed(job, read_at=self.now(), node_name=node.name if node else None)

    def put(self, job: Job) -> Job:
        """Store a row; the value as a statement that changed it returns it."""
        self.jobs[job.id] = job
        if job.state in LIVE or job.stop_state == StopState.PENDING:
            self.open[job.id] = None
        else:
            self.open.pop(job.id, None)
        return job

    def move(self, job_id: JobId, event: Event) -> Job | None:
        """One guarded statement: the row after it, or None where it touches nothing. The caller records it."""
        before = self.jobs.get(job_id)
        if before is None:
            return None
        now = self.now()
        outcome = rules.decide(before, event, now, self.windows)
        if isinstance(outcome, rules.Refused):
            return None
        after = self.put(changed(outcome.job, read_at=now, node_name=None))
        self.seen.moved(event, before, after)
        return after

    def would_move(self, job_id: JobId, event: Event) -> bool:
        """Whether the guards hold; for a transaction that is rolled back."""
        job = self.jobs.get(job_id)
        return job is not None and isinstance(rules.decide(job, event, self.now(), self.windows), rules.Accepted)

    def end(self, job_id: JobId, event: Event, actor: str) -> Job | None:
        """A move that ends an attempt without success, with what it means for its replica row."""
        job = self.move(job_id, event)
        if job is None:
            return None
        if job.stop_state == StopState.PENDING:
            self.doom_replica(job_id)
        else:
            self.free_replica(job_id)
        detail = {
            "by": type(event).__name__,
            "cause": job.error_cause,
            "error": job.error,
            "stop_state": job.stop_state,
            "node_incarnation": job.node_incarnation,
        }
        self.record(EVENT_NAMES[type(event)], job, actor, detail)
        if silences(job) and job.node_id is not None:
            self.silent_nodes[job.node_id] = self.now()
        if counts(job):
            key = (job.subject, job.revision, job.node_id)
            self.streaks[key] = longer(self.streaks.get(key), job)
        return job

    def record(self, event: str, job: Job, actor: str, detail: Mapping[str, Any] | None = None) -> None:
        self.job_events.append(
            EventRow(
                id=len(self.job_events) + 1,
                job_id=job.id,
                at=self.now(),
                event=event,
                state=job.state.value,
                phase=job.phase.value,
                generation=job.generation,
                op_generation=job.op_generation,
                actor=actor,
                node_id=job.node_id,
                detail=detail,
            )
        )

    def opened(self) -> list[Job]:
        return [self.jobs[job_id] for job_id in self.open]

    def subject(self, kind: str, name: str) -> Subject:
        if (kind, name) not in self.subjects:
            self.subjects[(kind, name)] = Subject()
        return self.subjects[(kind, name)]

    # Replicas

    def set_replica(self, replica: Replica, **changes: Any) -> Replica:
        changed = replace(replica, **changes, updated_at=self.now())
        self.replicas[(replica.model, replica.slot)] = changed
        return changed

    def replica_of(self, job_id: JobId) -> Replica | None:
        return next((replica for replica in self.replicas.values() if replica.job_id == job_id), None)

    def free_replica(self, job_id: JobId) -> None:
        """It is a fact that nothing of the attempt runs: slot and memory are free."""
        replica = self.replica_of(job_id)
        if replica is not None:
            del self.replicas[(replica.model, replica.slot)]

    def doom_replica(self, job_id: JobId) -> None:
        """The stop is pending: slot and memory stay taken, and the row never becomes routable."""
        replica = self.replica_of(job_id)
        if replica is not None and replica.state in ("staging", "loading"):
            self.set_replica(replica, state="unloading")

    def delete_replica(self, replica: Replica) -> bool:
        """The row of a process that has ended; whether routing changed."""
        if replica.state not in ("loaded", "unloading"):
            return False
        del self.replicas[(replica.model, replica.slot)]
        return replica.state == "loaded"

    def raise_version(self) -> None:
        self.routing_version += 1

    def doomed(self, job_id: JobId) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and job.state in DOOMED
