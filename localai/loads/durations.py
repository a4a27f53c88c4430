"""What finished loads took: written in the transaction that finishes one, read for the ETA of the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from localai import logs
from localai.clock import boottime
from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from localai.errors import StorageUnavailable
from localai.ids import NodeId
from localai.jobs.job import Job
from localai.loads.eta_rules import LoadDurations, order_size

log = logs.get(__name__)

SQL = load_queries("localai.loads")
#: Loads of one model on one class of nodes that are kept: older ones tell of other days.
KEPT = 50
#: A status is asked for every second or so; what is known changes when a load finishes.
MAX_AGE_S = 10.0
#: Models and nodes that are remembered; beyond it all are read again.
MOST_KEYS = 1000


def record(uow: UnitOfWork, job: Job) -> None:
    """Keep what the phases of a load took that has just succeeded, its last event included."""
    order = job.args.get("order") or {}
    parameters = {
        "id": job.id,
        "model": job.subject,
        "node": job.node_id,
        "backend": str(order.get("backend") or ""),
        "size": order_size(order),
    }
    row = uow.execute(SQL["record_durations"], parameters).first()
    if row is not None:
        uow.execute(SQL["prune_durations"], {"model": job.subject, "node_class": row.node_class, "keep": KEPT})


class PgDurations:
    """The kept durations in PostgreSQL."""

    def __init__(self, unit_of_work: UnitOfWorkFactory) -> None:
        self._unit_of_work = unit_of_work

    def known(self, model: str, node_id: NodeId) -> Sequence[LoadDurations]:
        """Of a model on nodes of the class of this one, the newest first. Raises StorageUnavailable."""
        with self._unit_of_work() as uow:
            rows = uow.execute(SQL["known_durations"], {"model": model, "node": node_id, "keep": KEPT})
            return [LoadDurations(**row) for row in rows.mappings()]


class KnowsDurations(Protocol):
    """Where durations are read."""

    def known(self, model: str, node_id: NodeId) -> Sequence[LoadDurations]: ...


class DurationBook:
    """The durations that statuses of loads need, each model and node read once in a while.

    A database that does not answer costs a status its ETA and nothing else.
    """

    def __init__(self, durations: KnowsDurations, *, clock: Callable[[], float] = boottime) -> None:
        self._durations, self._clock = durations, clock
        self._lock = threading.Lock()
        self._pages: dict[tuple[str, NodeId], tuple[float, Sequence[LoadDurations]]] = {}

    def of(self, job: Job) -> Sequence[LoadDurations]:
        """What is known of loads like this one. Reads nothing for a load that has ended or has no node yet."""
        if not job.live or job.node_id is None:
            return ()
        key, now = (job.subject, job.node_id), self._clock()
        with self._lock:
            read_at, page = self._pages.get(key, (None, ()))
        if read_at is not None and now - read_at < MAX_AGE_S:
            return page
        try:
            page = self._durations.known(*key)
        except StorageUnavailable as error:
            log.debug("a status without an ETA: %s", error.message)
            return page
        with self._lock:
            if len(self._pages) >= MOST_KEYS:
                self._pages.clear()
            self._pages[key] = (now, page)
        return page
