"""Which nodes a model is kept off after failures in a row: read for requests, placements and people, and lifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.ids import NodeId
from localai.jobs.job import Job
from localai.jobs.quarantine_rules import Streak, blocking
from localai.loads.ports import Quarantined

SQL = load_queries("localai.loads")


class PgQuarantines:
    """`Quarantines` on PostgreSQL. Every method raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, after: int) -> None:
        """``after`` failures in a row are a quarantine; 0: there is none."""
        self._unit_of_work, self._after = unit_of_work, after

    def list(self, *, model: str | None = None, node_id: NodeId | None = None) -> Sequence[Streak]:
        if not self._after:
            return ()
        with self._unit_of_work() as uow:
            return _streaks(uow, self._after, model=model, node_id=node_id)

    def blocking(self, model: str) -> Quarantined | None:
        with self._unit_of_work() as uow:
            return blocked(uow, model, None, self._after)

    @repeated
    def lift(self, model: str) -> int:
        with self._unit_of_work() as uow:
            lifted = uow.execute(SQL["lift_streaks"], {"model": model}).all()
        return sum(0 < self._after <= row.failures for row in lifted)


# Steps of the transactions of loads


def blocked(uow: UnitOfWork, model: str, revision: str | None, after: int) -> Quarantined | None:
    """What keeps a model from every node that serves; None where one of them may still try."""
    if not after or not (streaks := _streaks(uow, after, model=model, revision=revision)):
        return None
    serving = {NodeId(row.id) for row in uow.execute(SQL["serving_nodes"])}
    found = blocking(streaks, serving)
    return Quarantined(found) if found else None


def failures(uow: UnitOfWork, model: str, revision: str | None) -> Mapping[NodeId, Streak]:
    """The failures in a row of a revision of a model, by node."""
    return {streak.node_id: streak for streak in _streaks(uow, 1, model=model, revision=revision)}


def forget(uow: UnitOfWork, job: Job) -> None:
    """A load has succeeded there: its node is as good as any."""
    uow.execute(SQL["forget_streak"], {"model": job.subject, "revision": job.revision, "node": job.node_id})


def outdate(uow: UnitOfWork, model: str, revision: str) -> None:
    """Another config is another try, on every node."""
    uow.execute(SQL["outdate_streaks"], {"model": model, "revision": revision})


def _streaks(
    uow: UnitOfWork,
    least: int,
    *,
    model: str | None = None,
    revision: str | None = None,
    node_id: NodeId | None = None,
) -> list[Streak]:
    wanted = {"least": least, "model": model, "revision": revision, "node": node_id}
    return [Streak(**row) for row in uow.execute(SQL["streaks"], wanted).mappings()]
