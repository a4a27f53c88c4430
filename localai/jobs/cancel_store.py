"""How a cancel reaches the rows in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.ids import JobId
from localai.jobs.attempts import cancel, lock_subject
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import KINDS, MODEL_UNLOAD, Kinds
from localai.jobs.ports import NewJob
from localai.jobs.rows import SQL, jobs_of, one_job

#: What the row of a cancelled unload says.
UNLOAD_CANCELLED = "the unload was cancelled: running requests are not cut; their replicas stop when they have ended"


class PgCancelStore:
    """`CancelMoves` on PostgreSQL."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds

    @repeated
    def cancel(self, job_id: JobId, actor: str) -> Sequence[Job]:
        with self._unit_of_work() as uow:
            job = one_job(uow.execute(SQL["read_job"], {"id": job_id}))
            if job is not None and job.kind == MODEL_UNLOAD:
                return self._cancel_unload(uow, job, actor)
            return cancel(uow, self._kinds, self._windows, job_id, actor=actor)

    def _cancel_unload(self, uow: UnitOfWork, job: Job, actor: str) -> Sequence[Job]:
        """Its replicas stay unroutable, which is one-way, and nothing cuts their requests any more.

        The subject is held first, as by a new unload, which changes replicas before its job.
        """
        lock_subject(uow, self._kinds, NewJob(kind=MODEL_UNLOAD, subject=job.subject))
        ended = cancel(uow, self._kinds, self._windows, job.id, actor=actor, why=UNLOAD_CANCELLED)
        if not ended:
            return []
        uow.execute(SQL["let_requests_end"], {"id": job.id})
        return jobs_of(uow.execute(SQL["release_hold"], {"id": job.id}))
