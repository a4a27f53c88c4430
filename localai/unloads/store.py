"""How unloads reach their rows in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.ids import JobId, NodeId, OwnerId
from localai.jobs.attempts import insert, lock_subject
from localai.jobs.event_rules import FinishWork
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import KINDS, MODEL_UNLOAD, NODE_DRAIN, Kinds
from localai.jobs.ports import NewJob
from localai.jobs.rows import EVENT_NAMES, one_job, record
from localai.jobs.rows import SQL as JOBS_SQL
from localai.replicas.cuts import CutWindows
from localai.unloads.rules import Left
from localai.unloads.taking import SQL, Scope, Taken, raise_version, take

#: Kinds of job that wait for running requests.
FORCED_KINDS = (MODEL_UNLOAD, NODE_DRAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a request for an unload did."""

    #: None where no replica was there.
    job: Job | None
    created: bool
    taken: Taken


class PgUnloadStore:
    """Every method is one transaction and raises StorageUnavailable."""

    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        windows: Windows,
        kinds: Kinds = KINDS,
        *,
        cuts: CutWindows | None = None,
    ) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds
        self._cuts = cuts or CutWindows()

    @repeated
    def begin(self, model: str, actor: str, node_id: NodeId | None = None, *, force: bool = False) -> Begun:
        """Cancel the loads of a model, make its replicas unroutable, and write down what is to be gone.

        With ``force`` requests in flight are cut, also those that an unload under way waits for.
        All in one transaction under the subject's lock. What is loaded afterwards is none of this unload's business.
        """
        scope = Scope(model=model, node_id=node_id)
        with self._unit_of_work() as uow:
            if not uow.execute(SQL["anything_there"], scope.named()).scalar_one():
                return Begun(job=None, created=False, taken=Taken())
            lock_subject(uow, self._kinds, NewJob(kind=MODEL_UNLOAD, subject=model))
            taken = take(uow, self._kinds, self._windows, scope, actor=actor, force=force)
            # After the jobs of `take`: replicas are locked behind them.
            uow.execute(SQL["bound_again"], scope.named())
            job, created = self._job(uow, model, scope)
            if taken.routing_changed:
                raise_version(uow)
            return Begun(job=job, created=created, taken=taken)

    def left(self, job_id: JobId) -> Sequence[Left]:
        """The replicas of an unload or a drain that are still there."""
        with self._unit_of_work() as uow:
            parameters = {"id": job_id, "cut_after": self._cuts.after_s}
            return [Left(**row) for row in uow.execute(SQL["left"], parameters).mappings()]

    def finish(self, job: Job, owner: OwnerId) -> Job | None:
        """End an unload of which nothing is left; None where something is, or the row is not ours any more."""
        fence = {"id": job.id, "generation": job.generation, "owner": owner}
        with self._unit_of_work() as uow:
            lock_subject(uow, self._kinds, NewJob(kind=MODEL_UNLOAD, subject=job.subject))
            finished = one_job(uow.execute(SQL["finish_unload"], fence))
            if finished is not None:
                record(uow, EVENT_NAMES[FinishWork], finished, owner)
            return finished

    @repeated
    def force(self, job_id: JobId) -> Job | None:
        """Cut the requests that a live unload or drain waits for; None if there is no such live job."""
        with self._unit_of_work() as uow:
            job = one_job(uow.execute(JOBS_SQL["read_job"], {"id": job_id}))
            if job is None or job.kind not in FORCED_KINDS:
                return None
            lock_subject(uow, self._kinds, NewJob(kind=job.kind, subject=job.subject))
            forced = one_job(uow.execute(SQL["force_job"], {"id": job_id, "kinds": list(FORCED_KINDS)}))
            if forced is not None and uow.execute(SQL["force_stop_of_job"], {"id": job_id}).all():
                raise_version(uow)
            return forced

    def _job(self, uow: UnitOfWork, model: str, scope: Scope) -> tuple[Job | None, bool]:
        replicas = [str(row.id) for row in uow.execute(SQL["replicas_there"], scope.named())]
        if not replicas:
            return None, False
        extended = one_job(uow.execute(SQL["extend_unload"], {"model": model, "replicas": json.dumps(replicas)}))
        if extended is not None:
            return extended, False
        new = NewJob(kind=MODEL_UNLOAD, subject=model, args={"replicas": replicas})
        return insert(uow, self._kinds, self._windows, new), True
