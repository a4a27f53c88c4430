"""How replicas are taken away and loads ended, as a step of an open transaction: the one path of unloads and drains."""

from __future__ import annotations

from dataclasses import dataclass, field

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork
from localai.ids import JobId, NodeId
from localai.jobs.attempts import cancel
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import Kinds
from localai.jobs.rows import SQL as JOBS_SQL

SQL = load_queries("localai.unloads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is taken away: a model, everything on a node, or a model on a node."""

    model: str | None = None
    node_id: NodeId | None = None

    def named(self) -> dict[str, str | None]:
        return {"model": self.model, "node": self.node_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What was ended and marked."""

    #: Loads under way that were cancelled, and the fetches that only they waited for.
    cancelled: tuple[Job, ...] = field(default=())
    #: Replicas that served until now.
    marked: int = 0
    #: Replicas whose requests are to be cut.
    forced: int = 0

    @property
    def routing_changed(self) -> bool:
        """Whether frontends have something to do. A cut is no change of routes; the version tells them of it."""
        return bool(self.marked or self.forced)


def take(uow: UnitOfWork, kinds: Kinds, windows: Windows, scope: Scope, *, actor: str, force: bool = False) -> Taken:
    """Cancel the loads of a scope and make its replicas unroutable; the caller holds the subjects of their models.

    A load that finishes at the same time has either finished before, and is marked, or is cancelled. With ``force``
    requests in flight are cut. The caller raises the routing version if `Taken.routing_changed`, as the last statement
    of its transaction.
    """
    live = [JobId(row.id) for row in uow.execute(SQL["live_loads"], scope.named())]
    why = "cancelled because its model is unloaded" if scope.model else "cancelled because its node is taken out of use"
    cancelled = [job for load in live for job in cancel(uow, kinds, windows, load, actor=actor, why=why)]
    marked = len(uow.execute(SQL["mark_unloading"], scope.named()).all())
    forced = len(uow.execute(SQL["force_stop"], scope.named()).all()) if force else 0
    return Taken(cancelled=tuple(cancelled), marked=marked, forced=forced)


def raise_version(uow: UnitOfWork) -> None:
    """The last statement of a transaction that changed what may be routed to."""
    uow.execute(JOBS_SQL["raise_routing_version"])
