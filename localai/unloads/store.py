"""How unloads reach their rows in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from localai.ids import JobId, OwnerId
from localai.jobs.attempts import Ending, end, insert, lock_subject
from localai.jobs.effect_rules import CANCELLED
from localai.jobs.event_rules import Cancel, FinishWork
from localai.jobs.job import Job, State, Windows
from localai.jobs.kinds import KINDS, MODEL_UNLOAD, Kinds
from localai.jobs.operation_rules import Cause
from localai.jobs.ports import NewJob
from localai.jobs.rows import EVENT_NAMES, one_job, record
from localai.jobs.rows import SQL as JOBS_SQL
from localai.unloads.rules import Left

SQL = load_queries("localai.unloads")

_CANCEL = Ending(move=Cancel, guard="cancel", to=State.CANCELLED, cause=Cause.CANCELLED, error=CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a request for an unload did."""

    #: None where no replica was there.
    job: Job | None
    created: bool
    #: Loads under way that it ended.
    cancelled: tuple[Job, ...]
    #: Replicas that served until now.
    marked: int


class PgUnloadStore:
    """Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds

    def begin(self, model: str, actor: str) -> Begun:
        """Cancel the loads of a model, make its replicas unroutable, and write down what is to be gone.

        All in one transaction under the subject's lock: a load that finishes at the same time has either finished
        before, and is marked, or is cancelled. What is loaded afterwards is none of this unload's business.
        """
        with self._unit_of_work() as uow:
            if not uow.execute(SQL["anything_of_model"], {"model": model}).scalar_one():
                return Begun(job=None, created=False, cancelled=(), marked=0)
            lock_subject(uow, self._kinds, NewJob(kind=MODEL_UNLOAD, subject=model))
            cancelled = self._cancel_loads(uow, model, actor)
            marked = len(uow.execute(SQL["mark_unloading"], {"model": model}).all())
            job, created = self._job(uow, model)
            if marked:
                uow.execute(JOBS_SQL["raise_routing_version"])
            return Begun(job=job, created=created, cancelled=cancelled, marked=marked)

    def left(self, job_id: JobId) -> Sequence[Left]:
        """The replicas of an unload that are still there."""
        with self._unit_of_work() as uow:
            return [Left(**row) for row in uow.execute(SQL["left"], {"id": job_id}).mappings()]

    def finish(self, job: Job, owner: OwnerId) -> Job | None:
        """End an unload of which nothing is left; None where something is, or the row is not ours any more."""
        fence = {"id": job.id, "generation": job.generation, "owner": owner}
        with self._unit_of_work() as uow:
            lock_subject(uow, self._kinds, NewJob(kind=MODEL_UNLOAD, subject=job.subject))
            finished = one_job(uow.execute(SQL["finish_unload"], fence))
            if finished is not None:
                record(uow, EVENT_NAMES[FinishWork], finished, owner)
            return finished

    # Steps of `begin`

    def _cancel_loads(self, uow: UnitOfWork, model: str, actor: str) -> tuple[Job, ...]:
        live = uow.execute(SQL["live_loads"], {"model": model}).all()
        ended = (end(uow, self._windows, JobId(row.id), _CANCEL, actor=actor) for row in live)
        return tuple(job for job in ended if job is not None)

    def _job(self, uow: UnitOfWork, model: str) -> tuple[Job | None, bool]:
        replicas = [str(row.id) for row in uow.execute(SQL["replicas_of_model"], {"model": model})]
        if not replicas:
            return None, False
        parameters = {"model": model, "replicas": json.dumps(replicas)}
        extended = one_job(uow.execute(SQL["extend_unload"], parameters))
        if extended is not None:
            return extended, False
        new = NewJob(kind=MODEL_UNLOAD, subject=model, args={"replicas": replicas})
        return insert(uow, self._kinds, self._windows, new), True
