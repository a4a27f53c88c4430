"""What a web process has said about replicas that are being taken away: nothing of them is stopped before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWorkFactory
from localai.ids import FrontendId
from localai.replicas.cuts import CutWindows

SQL = load_queries("localai.routing")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRow:
    """One replica that is `unloading`, as one web process has to speak of it."""

    replica_id: str
    process_instance: str
    said: int | None
    #: Requests keep the replica from its stop no more.
    cut: bool


class PgDrains:
    """Acknowledgements. Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, cuts: CutWindows | None = None) -> None:
        self._unit_of_work, self._cuts = unit_of_work, cuts or CutWindows()

    def open_drains(self, frontend_id: FrontendId) -> Sequence[DrainRow]:
        """The replicas this process has not acknowledged with 0."""
        with self._unit_of_work() as uow:
            parameters = {"frontend": frontend_id, "cut_after": self._cuts.after_s, "gap": self._cuts.gap_s}
            rows = uow.execute(SQL["open_drains"], parameters).mappings()
            return [DrainRow(**row) for row in rows]

    def acknowledge(self, frontend_id: FrontendId, replica_id: str, in_flight: int) -> None:
        """Say it; nothing is written for a replica that is gone, or by a process whose row does not hold."""
        parameters = {"frontend": frontend_id, "replica": replica_id, "in_flight": in_flight}
        with self._unit_of_work() as uow:
            uow.execute(SQL["acknowledge_drain"], parameters)
