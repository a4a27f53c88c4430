"""Which nodes a model is kept off after failures in a row: read for requests, placements and people, and lifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.ids import NodeId
from localai.jobs.job import Job
from localai.jobs.quarantine_rules import PASSING, Streak, blocking
from localai.loads.ports import Quarantined

SQL = load_queries("localai.loads")


@dataclass(frozen=True, slots=True)
class Rule:
    """How many failures in a row are a quarantine (0: there is none), and how long one of a silent worker lasts."""

    after: int
    silent_hold_s: float


class PgQuarantines:
    """`Quarantines` on PostgreSQL. Every method raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, after: int, silent_hold_s: float) -> None:
        self._unit_of_work, self._rule = unit_of_work, Rule(after, silent_hold_s)

    def list(self, *, model: str | None = None, node_id: NodeId | None = None) -> Sequence[Streak]:
        if not self._rule.after:
            return ()
        with self._unit_of_work() as uow:
            return _streaks(uow, self._rule, model=model, node_id=node_id)

    def blocking(self, model: str) -> Quarantined | None:
        with self._unit_of_work() as uow:
            return blocked(uow, model, None, self._rule)

    @repeated
    def lift(self, model: str) -> int:
        with self._unit_of_work() as uow:
            lifted = uow.execute(SQL["lift_streaks"], {"model": model}).all()
        return sum(0 < self._rule.after <= row.failures for row in lifted)


# Steps of the transactions of loads


def blocked(uow: UnitOfWork, model: str, revision: str | None, rule: Rule) -> Quarantined | None:
    """What keeps a model from every node that serves; None where one of them may still try."""
    if not rule.after or not (streaks := _streaks(uow, rule, model=model, revision=revision)):
        return None
    serving = {NodeId(row.id) for row in uow.execute(SQL["serving_nodes"])}
    found = blocking(streaks, serving)
    return Quarantined(found) if found else None


def failures(uow: UnitOfWork, model: str, revision: str | None, silent_hold_s: float) -> Mapping[NodeId, Streak]:
    """The failures in a row of a revision of a model, by node."""
    return {streak.node_id: streak for streak in _streaks(uow, Rule(1, silent_hold_s), model=model, revision=revision)}


def forget(uow: UnitOfWork, job: Job) -> None:
    """A load has succeeded there: its node is as good as any."""
    uow.execute(SQL["forget_streak"], {"model": job.subject, "revision": job.revision, "node": job.node_id})


def outdate(uow: UnitOfWork, model: str, revision: str) -> None:
    """Another config is another try, on every node."""
    uow.execute(SQL["outdate_streaks"], {"model": model, "revision": revision})


def _streaks(
    uow: UnitOfWork,
    rule: Rule,
    *,
    model: str | None = None,
    revision: str | None = None,
    node_id: NodeId | None = None,
) -> list[Streak]:
    wanted = {
        "least": rule.after,
        "passing": sorted(PASSING),
        "silent_hold": rule.silent_hold_s,
        "model": model,
        "revision": revision,
        "node": node_id,
    }
    return [Streak(**row) for row in uow.execute(SQL["streaks"], wanted).mappings()]
