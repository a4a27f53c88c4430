"""How a cancel reaches the rows in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from localai.db.unit_of_work import UnitOfWorkFactory, repeated
from localai.ids import JobId
from localai.jobs.attempts import cancel
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import KINDS, Kinds


class PgCancelStore:
    """`CancelMoves` on PostgreSQL."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds

    @repeated
    def cancel(self, job_id: JobId, actor: str) -> Sequence[Job]:
        with self._unit_of_work() as uow:
            return cancel(uow, self._kinds, self._windows, job_id, actor=actor)
