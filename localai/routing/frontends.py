"""Which web processes live, so that whoever takes a replica away knows whom to wait for."""

from __future__ import annotations

import json
from collections.abc import Mapping

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWorkFactory
from localai.ids import FrontendId, new_id

SQL = load_queries("localai.routing")


class PgFrontends:
    """Rows of web processes. Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, lease_s: float) -> None:
        self._unit_of_work, self._lease_s = unit_of_work, lease_s

    def register(self, host: str, pid: int, url: str | None, instance_id: str = "") -> FrontendId:
        """A new row with a new lease, committed: only then may the process read what it will route by.

        ``instance_id`` is the name that people gave the frontend. Nothing is decided by it.
        """
        frontend_id = FrontendId(new_id())
        parameters = {"id": frontend_id, "host": host, "pid": pid, "url": url, "lease": self._lease_s}
        parameters["instance_id"] = instance_id
        with self._unit_of_work() as uow:
            uow.execute(SQL["register_frontend"], parameters)
        return frontend_id

    def renew(self, frontend_id: FrontendId, in_flight: Mapping[str, int]) -> bool:
        """Prolong the lease; False where it has lapsed, and then for ever: register anew.

        ``in_flight`` holds the requests of this process by process instance, for people who look.
        """
        with self._unit_of_work() as uow:
            parameters = {"id": frontend_id, "lease": self._lease_s, "in_flight": json.dumps(dict(in_flight))}
            return uow.execute(SQL["renew_frontend"], parameters).first() is not None

    def end(self, frontend_id: FrontendId) -> None:
        """The process is over; a repeat changes nothing."""
        with self._unit_of_work() as uow:
            uow.execute(SQL["end_frontend"], {"id": frontend_id})

    def mark_lapsed(self) -> int:
        """Mark rows whose lease is over; how many."""
        with self._unit_of_work() as uow:
            return len(uow.execute(SQL["mark_lapsed_frontends"]).all())

    def prune(self, older_than_s: float) -> int:
        """Delete rows of processes that ended long ago; how many."""
        with self._unit_of_work() as uow:
            return uow.execute(SQL["prune_frontends"], {"older_than": older_than_s}).rowcount
