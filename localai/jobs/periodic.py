"""Which slow passes are due: one row for each, moved forward by whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping

from localai.db.unit_of_work import UnitOfWorkFactory
from localai.jobs.rows import SQL


class PgPeriodic:
    """Rows of periodic work. The statement that moves a row forward is what makes two tickers safe."""

    def __init__(self, unit_of_work: UnitOfWorkFactory) -> None:
        self._unit_of_work = unit_of_work

    def declare(self, intervals_s: Mapping[str, float]) -> None:
        """Make the rows that are missing and set their intervals. A new one is due at once."""
        with self._unit_of_work() as uow:
            for name, interval_s in sorted(intervals_s.items()):
                uow.execute(SQL["declare_periodic"], {"name": name, "interval": interval_s})

    def take_due(self, names: list[str]) -> list[str]:
        """Names that are due, each for one caller only."""
        with self._unit_of_work() as uow:
            return [row.name for row in uow.execute(SQL["take_due_periodic"], {"names": names})]
