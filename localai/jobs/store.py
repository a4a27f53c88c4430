"""How requests, owners and readers reach the rows of the jobs table in PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from localai.db.unit_of_work import UnitOfWorkFactory
from localai.ids import JobId, OwnerId
from localai.jobs.attempts import Ending, end, insert, lock_subject
from localai.jobs.event_rules import Adopt, Event, Fail, FinishWork, Progress, Release, Resend, Take
from localai.jobs.guard_rules import MAX_ADOPTIONS
from localai.jobs.job import Job, State, Windows
from localai.jobs.kinds import KINDS, Kind, Kinds, OnLapse
from localai.jobs.ports import EventRow, Intake, JobFilter, NewJob, Renewal
from localai.jobs.rows import EVENT_NAMES, SQL, jobs_of, one_job, record


class PgJobStore:
    """`JobReads`, `JobIntake` and `OwnerMoves` on PostgreSQL."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds

    # JobReads

    def get(self, job_id: JobId) -> Job | None:
        with self._unit_of_work() as uow:
            return one_job(uow.execute(SQL["read_job"], {"id": job_id}))

    def list(self, wanted: JobFilter) -> Sequence[Job]:
        before_at, before_id = wanted.before or (None, None)
        parameters = {
            "state": wanted.state,
            "kind": wanted.kind,
            "subject": wanted.subject,
            "node": wanted.node_id,
            "parent": wanted.parent_id,
            "limit": wanted.limit,
            "before_at": before_at,
            "before_id": before_id,
        }
        with self._unit_of_work() as uow:
            return jobs_of(uow.execute(SQL["list_jobs"], parameters))

    def events(self, job_id: JobId, after: int = 0) -> Sequence[EventRow]:
        with self._unit_of_work() as uow:
            rows = uow.execute(SQL["list_events"], {"id": job_id, "after": after})
            return [EventRow(**row) for row in rows.mappings()]

    def live(self, kind: str, subject: str) -> Job | None:
        with self._unit_of_work() as uow:
            return one_job(uow.execute(SQL["live_job"], {"kind": kind, "subject": subject}))

    # JobIntake

    def request(self, new: NewJob) -> tuple[Intake, Job]:
        attempt = {"kind": new.kind, "subject": new.subject, "slot": new.slot}
        with self._unit_of_work() as uow:
            lock_subject(uow, self._kinds, new)
            newest = one_job(uow.execute(SQL["newest_attempt"], attempt))
            if newest is not None and newest.live:
                return Intake.LIVE, newest
            if newest is not None and newest.held:
                return Intake.HELD, newest
            if new.parent_id is not None and self._kinds[new.kind].serves is not None:
                parent = one_job(uow.execute(SQL["hold_job"], {"id": new.parent_id}))
                if parent is not None and not parent.live:
                    return Intake.ORPHAN, parent
            return Intake.CREATED, insert(uow, self._kinds, self._windows, new)

    # OwnerMoves

    def take(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        parameters = {"id": job_id, "generation": generation, "owner": owner, "lease": self._windows.lease_s}
        return self._move(Take, "take_job", parameters, owner)

    def adopt(self, owner: OwnerId, limit: int) -> Sequence[Job]:
        fresh_s = self._windows.adopt_fresh_s
        if fresh_s is None:
            return []
        adoptable = [kind for kind in self._kinds.values() if kind.on_lapse == OnLapse.ADOPT]
        return [job for kind in adoptable for job in self._adopt(kind, owner, fresh_s, limit)]

    def release(self, owner: OwnerId) -> Sequence[Job]:
        fresh_s = self._windows.adopt_fresh_s
        goes_on = {OnLapse.REQUEUE} if fresh_s is None else {OnLapse.REQUEUE, OnLapse.ADOPT}
        parameters = {
            "owner": owner,
            "kinds": [kind.name for kind in self._kinds.values() if kind.on_lapse in goes_on],
            "fresh": fresh_s or 0.0,
        }
        with self._unit_of_work() as uow:
            jobs = jobs_of(uow.execute(SQL["release_jobs"], parameters))
            for job in jobs:
                record(uow, EVENT_NAMES[Release], job, owner)
            return jobs

    def renew(self, owner: OwnerId, held: Collection[tuple[JobId, int]]) -> Renewal:
        parameters = {
            "ids": [job_id for job_id, _ in held],
            "generations": [generation for _, generation in held],
            "owner": owner,
            "lease": self._windows.lease_s,
        }
        with self._unit_of_work() as uow:
            rows = uow.execute(SQL["renew_jobs"], parameters).all()
        return Renewal(
            renewed=frozenset(JobId(row.id) for row in rows if row.renewed),
            untouched=frozenset(JobId(row.id) for row in rows if not row.renewed),
        )

    def owned(self, owner: OwnerId) -> Sequence[Job]:
        with self._unit_of_work() as uow:
            return jobs_of(uow.execute(SQL["owned_jobs"], {"owner": owner}))

    def progress(self, job_id: JobId, event: Progress) -> Job | None:
        parameters = {
            "id": job_id,
            "generation": event.generation,
            "owner": event.owner,
            "bytes_done": event.bytes_done,
            "bytes_total": event.bytes_total,
            "file_index": event.file_index,
            "files_total": event.files_total,
            "message": event.message,
        }
        with self._unit_of_work() as uow:
            return one_job(uow.execute(SQL["progress_job"], parameters))

    def finish(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        return self._move(FinishWork, "finish_job", {"id": job_id, "generation": generation, "owner": owner}, owner)

    def fail(self, job_id: JobId, event: Fail) -> Job | None:
        ending = Ending(
            move=Fail,
            guard="owner",
            to=State.FAILED,
            cause=event.cause,
            error=event.error,
            detail=event.detail,
            ended=event.ended,
            fence={"generation": event.generation, "owner": event.owner},
        )
        with self._unit_of_work() as uow:
            return end(uow, self._windows, job_id, ending, actor=event.owner)

    def resend_due(self, owner: OwnerId, limit: int) -> Sequence[Job]:
        parameters = {"owner": owner, "limit": limit, "dispatch_max": self._windows.dispatch_max_s}
        with self._unit_of_work() as uow:
            jobs = jobs_of(uow.execute(SQL["due_orders"], parameters))
            for job in jobs:
                record(uow, EVENT_NAMES[Resend], job, owner)
            return jobs

    def _adopt(self, kind: Kind, owner: OwnerId, fresh_s: float, limit: int) -> Sequence[Job]:
        adopted = []
        bounds = {"most": MAX_ADOPTIONS, "fresh": fresh_s}
        lost = {"kind": kind.name, "subject_kind": kind.subject_kind, "limit": limit, **bounds}
        with self._unit_of_work() as uow:
            for job in jobs_of(uow.execute(SQL["lapsed_to_adopt"], lost)):
                subject = {"subject_kind": kind.subject_kind, "subject": job.subject}
                fence = {
                    "id": job.id,
                    "generation": job.generation,
                    "new_generation": uow.execute(SQL["draw_generation"], subject).scalar_one(),
                    "owner": owner,
                    "lease": self._windows.lease_s,
                    **bounds,
                }
                after = one_job(uow.execute(SQL["adopt_job"], fence))
                if after is not None:
                    record(uow, EVENT_NAMES[Adopt], after, owner, {"lost_owner": job.owner})
                    adopted.append(after)
        return adopted

    def _move(self, event: type[Event], statement: str, parameters: Mapping[str, Any], actor: str) -> Job | None:
        with self._unit_of_work() as uow:
            job = one_job(uow.execute(SQL[statement], parameters))
            if job is not None:
                record(uow, EVENT_NAMES[event], job, actor)
            return job
