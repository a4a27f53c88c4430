"""`JobReads`, `JobIntake` and `OwnerMoves` on rows in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from localai.ids import JobId, OwnerId
from localai.jobs.event_rules import Adopt, Event, Fail, FinishWork, Progress, Release, Renew, Resend, Take
from localai.jobs.job import LIVE, Job, State, after
from localai.jobs.kinds import KINDS, Kinds, OnLapse
from localai.jobs.ports import EventRow, Intake, JobFilter, NewJob, Renewal
from localai.jobs.rows import EVENT_NAMES
from localai.nodes.rules import Status
from tests.simulator.tables import Tables


def insert(tables: Tables, kinds: Kinds, new: NewJob) -> Job:
    """A new attempt under the next generation of its subject."""
    subject = tables.subject(kinds[new.kind].subject_kind, new.subject)
    subject.last_generation += 1
    now = tables.now()
    job = Job(
        id=JobId(tables.new_id()),
        kind=new.kind,
        subject=new.subject,
        slot=new.slot,
        parent_id=new.parent_id,
        generation=subject.last_generation,
        args=dict(new.args),
        revision=new.revision,
        node_id=new.node_id,
        dispatch_window_s=tables.windows.dispatch_s,
        dispatch_expires_at=after(now, tables.windows.dispatch_s),
        created_at=now,
        read_at=now,
    )
    tables.put(job)
    tables.record("requested", job, "request")
    return job


def adoption(tables: Tables, kinds: Kinds, job: Job, owner: OwnerId) -> Adopt | None:
    """The move that gives a load to another owner, where its guards hold now."""
    kind, fresh_s = kinds[job.kind], tables.windows.adopt_fresh_s
    if kind.on_lapse != OnLapse.ADOPT or fresh_s is None:
        return None
    new = tables.subject(kind.subject_kind, job.subject).last_generation + 1
    event = Adopt(generation=job.generation, new_generation=new, owner=owner, fresh_s=fresh_s)
    return event if tables.would_move(job.id, event) else None


class MemoryJobs:
    """Jobs of all kinds."""

    def __init__(self, tables: Tables, kinds: Kinds = KINDS) -> None:
        self._tables, self._kinds = tables, kinds

    # JobReads

    def get(self, job_id: JobId) -> Job | None:
        return self._tables.read(job_id)

    def list(self, wanted: JobFilter) -> Sequence[Job]:
        found = [job for job in self._tables.jobs.values() if _wanted(job, wanted)]
        found.sort(key=lambda job: (job.created_at, job.id), reverse=True)
        return [self._tables.as_read(job) for job in found[: wanted.limit]]

    def events(self, job_id: JobId, after: int = 0) -> Sequence[EventRow]:
        return [row for row in self._tables.job_events if row.job_id == job_id and row.id > after]

    def live(self, kind: str, subject: str) -> Job | None:
        found = [job for job in self._tables.opened() if job.live and (job.kind, job.subject) == (kind, subject)]
        return self._tables.as_read(min(found, key=lambda job: job.slot)) if found else None

    # JobIntake

    def request(self, new: NewJob) -> tuple[Intake, Job]:
        attempts = [
            job
            for job in self._tables.jobs.values()
            if (job.kind, job.subject, job.slot) == (new.kind, new.subject, new.slot)
        ]
        newest = self._tables.as_read(max(attempts, key=lambda job: job.generation)) if attempts else None
        if newest is not None and newest.live:
            return Intake.LIVE, newest
        if newest is not None and newest.held:
            return Intake.HELD, newest
        if new.parent_id is not None and self._kinds[new.kind].serves is not None:
            parent = self._tables.read(new.parent_id)
            if parent is not None and not parent.live:
                return Intake.ORPHAN, parent
        return Intake.CREATED, insert(self._tables, self._kinds, new)

    # OwnerMoves

    def take(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        return self._move(job_id, Take(generation=generation, owner=owner), owner)

    def adopt(self, owner: OwnerId, limit: int) -> Sequence[Job]:
        adopted: list[Job] = []
        for job in sorted(self._tables.opened(), key=lambda job: (job.subject, job.id)):
            event = adoption(self._tables, self._kinds, job, owner) if len(adopted) < limit else None
            if event is None:
                continue
            after_it = self._tables.move(job.id, event)
            assert after_it is not None, "its guards hold"
            subject = self._tables.subject(self._kinds[job.kind].subject_kind, job.subject)
            subject.last_generation = max(subject.last_generation, event.new_generation)
            self._tables.record(EVENT_NAMES[Adopt], after_it, owner, {"lost_owner": job.owner})
            adopted.append(after_it)
        return adopted

    def release(self, owner: OwnerId) -> Sequence[Job]:
        fresh_s, released = self._tables.windows.adopt_fresh_s, []
        goes_on = {OnLapse.REQUEUE} if fresh_s is None else {OnLapse.REQUEUE, OnLapse.ADOPT}
        for job in sorted(self._tables.opened(), key=lambda job: job.id):
            if job.owner == owner and self._kinds[job.kind].on_lapse in goes_on:
                event = Release(generation=job.generation, owner=owner, fresh_s=fresh_s or 0.0)
                released.append(self._move(job.id, event, owner))
        return [job for job in released if job is not None]

    def renew(self, owner: OwnerId, held: Collection[tuple[JobId, int]]) -> Renewal:
        renewed = {
            job_id
            for job_id, generation in held
            if self._tables.move(job_id, Renew(generation=generation, owner=owner)) is not None
        }
        return Renewal(renewed=frozenset(renewed), untouched=frozenset())

    def owned(self, owner: OwnerId) -> Sequence[Job]:
        mine = [job for job in self._tables.opened() if job.owner == owner and job.state == State.RUNNING]
        return [self._tables.as_read(job) for job in sorted(mine, key=lambda job: job.id)]

    def progress(self, job_id: JobId, event: Progress) -> Job | None:
        return self._tables.move(job_id, event)

    def finish(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        return self._move(job_id, FinishWork(generation=generation, owner=owner), owner)

    def fail(self, job_id: JobId, event: Fail) -> Job | None:
        return self._tables.end(job_id, event, event.owner)

    def resend_due(self, owner: OwnerId, limit: int) -> Sequence[Job]:
        moved = []
        for job in sorted(self._tables.opened(), key=lambda job: job.id):
            if job.owner != owner or job.node_id is None or len(moved) >= limit:
                continue
            if self._tables.nodes[job.node_id].status is not Status.HEALTHY:
                continue
            sent = self._move(job.id, Resend(generation=job.generation, owner=owner), owner)
            if sent is not None:
                moved.append(sent)
        return moved

    def _move(self, job_id: JobId, event: Event, actor: str) -> Job | None:
        job = self._tables.move(job_id, event)
        if job is not None:
            self._tables.record(EVENT_NAMES[type(event)], job, actor)
        return job


def _wanted(job: Job, wanted: JobFilter) -> bool:
    given = (
        (wanted.state, job.state),
        (wanted.kind, job.kind),
        (wanted.subject, job.subject),
        (wanted.node_id, job.node_id),
        (wanted.parent_id, job.parent_id),
    )
    if any(value is not None and value != of_row for value, of_row in given):
        return False
    return wanted.before is None or (job.created_at, job.id) < wanted.before


def deciding_attempt(tables: Tables, kind: str, subject: str) -> Job | None:
    """The live attempt of a subject, whatever its slot, else the one whose hold lies furthest ahead."""
    now = tables.now()
    mine = [job for job in tables.jobs.values() if (job.kind, job.subject) == (kind, subject)]
    live = [job for job in mine if job.state in LIVE]
    if live:
        return tables.as_read(live[0])
    held = [job for job in mine if job.hold_until is not None and job.hold_until > now]
    return tables.as_read(max(held, key=lambda job: job.hold_until or now)) if held else None
