"""The shared note of all sweeps in PostgreSQL, and the mending of stored times after a gap or a step of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from localai import logs
from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from localai.observation.observer import Observation
from localai.observation.rules import Finding, Note, look
from localai.settings import Settings

SQL = load_queries("localai.observation")
log = logs.get(__name__)

#: Locks are taken in the order subject, node, job, replica, as everywhere.
_MENDS = (
    "mend_subjects",
    "mend_nodes",
    "mend_live_jobs",
    "mend_ended_jobs",
    "mend_stops",
    "mend_replicas",
    "mend_frontends",
    "mend_silent_nodes",
    "mend_streaks",
    "mend_periodic",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far ahead of the clock a stored time may lie, and how long a gap is, in seconds."""

    gap_s: float
    lease_s: float
    retry_late_s: float
    frontend_lease_s: float

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(
            gap_s=settings.observation_gap_s,
            lease_s=settings.job_lease_ttl_s,
            retry_late_s=settings.stop_window_s * 2,
            frontend_lease_s=settings.frontend_lease_ttl_s,
        )


class PgObservation:
    """The note that every pass of every sweep reads."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, limits: Limits) -> None:
        self._unit_of_work, self._limits = unit_of_work, limits

    def observe(self) -> Observation:
        """Note the time if that is due.

        A note and the mending of times that lie ahead of the clock are one transaction. Raises StorageUnavailable.
        """
        with self._unit_of_work() as uow:
            finding, now = self._look(uow)
            if not finding.note or uow.execute(SQL["hold_note"]).first() is None:
                return Observation(finding.watched_s, now)
            finding, now = self._look(uow)
            if not finding.note:
                return Observation(finding.watched_s, now)
            uow.execute(SQL["write_note"], {"resumes": finding.resumes})
            self._mend(uow, finding.unseen_s)
        if finding.unseen_s > self._limits.gap_s or finding.stepped_back:
            log.warning(
                "the rows were not observed without a gap: silent nodes and lost owners are judged later",
                extra=logs.fields(unseen_s=round(finding.unseen_s, 1), clock_stepped_back=finding.stepped_back),
            )
        return Observation(finding.watched_s, now)

    def _look(self, uow: UnitOfWork) -> tuple[Finding, datetime]:
        note = Note(**uow.execute(SQL["read_note"]).mappings().one())
        return look(note, self._limits.gap_s), note.now

    def _mend(self, uow: UnitOfWork, unseen_s: float) -> None:
        parameters = {
            "unseen": unseen_s,
            "lease": self._limits.lease_s,
            "retry_late": self._limits.retry_late_s,
            "frontend_lease": self._limits.frontend_lease_s,
        }
        for statement in _MENDS:
            uow.execute(SQL[statement], parameters)
