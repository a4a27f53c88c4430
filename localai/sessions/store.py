"""Sessions of the pages that a person ended before their time."""

from __future__ import annotations

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWorkFactory

SQL = load_queries("localai.sessions")


class PgEndedSessions:
    """Digests of ended sessions. Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory) -> None:
        self._unit_of_work = unit_of_work

    def end(self, digest: str, for_s: float) -> None:
        """No frontend accepts the session any more; its row is kept until it would have ended by itself."""
        with self._unit_of_work() as uow:
            uow.execute(SQL["prune_ended_sessions"], {})
            uow.execute(SQL["end_session"], {"digest": digest, "for_s": for_s})

    def is_ended(self, digest: str) -> bool:
        """Whether a person ended the session."""
        with self._unit_of_work() as uow:
            return uow.execute(SQL["is_ended_session"], {"digest": digest}).first() is not None
