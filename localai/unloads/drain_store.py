"""How drains and removals of nodes reach their rows in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.ids import JobId, NodeId, OwnerId
from localai.jobs.attempts import CANCEL, end, insert, lock_subject
from localai.jobs.event_rules import ConfirmStop, FinishWork
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import KINDS, MODEL_LOAD, NODE_DRAIN, Kinds
from localai.jobs.ports import NewJob
from localai.jobs.rows import EVENT_NAMES, jobs_of, one_job, record
from localai.jobs.rows import SQL as JOBS_SQL
from localai.nodes.rules import Status
from localai.unloads.drain_rules import Wish, goes_anyway
from localai.unloads.taking import SQL, Scope, Taken, raise_version, take


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The end of a drain. ``stopped`` are the stops that nobody will answer, because the node went."""

    job: Job
    removed: NodeId | None
    stopped: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Resumed:
    """A node that may get work again, and the job that was emptying it."""

    called_off: Job | None


class PgDrainStore:
    """Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds

    @repeated
    def begin(self, node_id: NodeId, wish: Wish) -> tuple[Job, bool] | None:
        """Take a node out of use and write the job that empties it; whether it is new. None: there is no such node.

        The node's row is locked by every placement, so what was placed before is there for the job's first step.
        """
        with self._unit_of_work() as uow:
            name = self._hold(uow, node_id)
            if name is None or uow.execute(SQL["drain_node"], {"node": node_id}).first() is None:
                return None
            uow.execute(SQL["bound_again"], Scope(node_id=node_id).named())
            if wish.cut:
                uow.execute(SQL["force_stop"], Scope(node_id=node_id).named())
            begun = self._job(uow, node_id, name, wish)
            raise_version(uow)
            return begun

    @repeated
    def resume(self, node_id: NodeId, actor: str) -> Resumed | None:
        """Let a node get work again and call its drain off. None: there is no such node."""
        with self._unit_of_work() as uow:
            name = self._hold(uow, node_id)
            if name is None:
                return None
            changed = uow.execute(SQL["resume_node"], {"node": node_id}).first() is not None
            live = uow.execute(SQL["live_drain"], {"name": name}).first()
            ended = end(uow, self._windows, JobId(live.id), CANCEL, actor=actor) if live is not None else None
            if ended is not None:
                ended = one_job(uow.execute(SQL["release"], {"id": ended.id}))
            if changed:
                raise_version(uow)
            return Resumed(ended)

    def take(self, node_id: NodeId, actor: str, *, force: bool = False) -> Taken:
        """Cancel the loads placed on a node and make its replicas unroutable, whatever their models.

        With ``force`` requests in flight there are cut.
        """
        with self._unit_of_work() as uow:
            models = [row.model for row in uow.execute(SQL["models_to_take"], {"node": node_id})]
            if not models:
                return Taken()
            for model in models:  # in the order of their names, as everybody who holds several
                lock_subject(uow, self._kinds, NewJob(kind=MODEL_LOAD, subject=model))
            taken = take(uow, self._kinds, self._windows, Scope(node_id=node_id), actor=actor, force=force)
            if taken.routing_changed:
                raise_version(uow)
            return taken

    def finish(self, job: Job, owner: OwnerId) -> Drained | None:
        """End a drain once nothing is left on its node, and the node with it where that is the wish.

        None where something is left, or the row is not ours any more.
        """
        fence = {"id": job.id, "generation": job.generation, "owner": owner}
        with self._unit_of_work() as uow:
            lock_subject(uow, self._kinds, NewJob(kind=NODE_DRAIN, subject=job.subject))
            node = uow.execute(SQL["hold_node"], {"node": job.node_id}).first()
            now = one_job(uow.execute(JOBS_SQL["read_job"], {"id": job.id}))
            wish = Wish.of(now.args if now is not None else {})
            status = Status(node.status) if node is not None else None
            finished = one_job(uow.execute(SQL["finish_drain"], {**fence, "anyway": goes_anyway(wish, status)}))
            if finished is None:
                return None
            record(uow, EVENT_NAMES[FinishWork], finished, owner, {"removed": wish.remove})
            if node is None or not wish.remove:
                return Drained(job=finished, removed=None)
            stopped = self._remove(uow, NodeId(node.id), node.name, owner)
            return Drained(job=finished, removed=NodeId(node.id), stopped=tuple(stopped))

    # Steps of the transactions above

    def _hold(self, uow: UnitOfWork, node_id: NodeId) -> str | None:
        """Hold the subject of a node's drains; its name."""
        name: str | None = uow.execute(SQL["node_name"], {"node": node_id}).scalar_one_or_none()
        if name is not None:
            lock_subject(uow, self._kinds, NewJob(kind=NODE_DRAIN, subject=name))
        return name

    def _job(self, uow: UnitOfWork, node_id: NodeId, name: str, wish: Wish) -> tuple[Job, bool]:
        extended = one_job(uow.execute(SQL["extend_drain"], {"name": name, "wish": json.dumps(wish.to_args())}))
        if extended is not None:
            return extended, False
        new = NewJob(kind=NODE_DRAIN, subject=name, node_id=node_id, args=wish.to_args())
        return insert(uow, self._kinds, self._windows, new), True

    @staticmethod
    def _remove(uow: UnitOfWork, node_id: NodeId, name: str, actor: str) -> Sequence[Job]:
        stopped = jobs_of(uow.execute(SQL["give_up_stops"], {"node": node_id}))
        for job in stopped:
            record(uow, EVENT_NAMES[ConfirmStop], job, actor, {"reason": "node_removed"})
        uow.execute(SQL["remember_removed"], {"node": node_id, "name": name})
        uow.execute(SQL["delete_node"], {"node": node_id})
        raise_version(uow)
        return stopped
