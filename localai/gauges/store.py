"""Which gauges are read from the rows and the queue, and how often?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric as Family

from localai import logs, metrics
from localai.clock import boottime
from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWorkFactory
from localai.errors import StorageUnavailable

log = logs.get(__name__)

SQL = load_queries("localai.gauges")

#: Scrapes that come closer together get the same figures.
MAX_AGE_S = 5.0
_LOAD = "model.load"

#: Messages waiting for the control processes under None, and for each node under its id; None when nobody can say.
Depths = Callable[[Sequence[str]], Mapping[str | None, int] | None]


Labelled = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the database said."""

    loads: Labelled
    stops: Labelled
    quarantines: Labelled
    #: Names of nodes by id.
    nodes: Mapping[str, str]
    xmin_age: float


class Gauges:
    """Figures that no process keeps. One reading at a time, and none more often than every few seconds."""

    def __init__(
        self,
        unit_of_work: UnitOfWorkFactory,
        depths: Depths,
        *,
        quarantine_after: int = 0,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """``quarantine_after`` failures in a row are a quarantine; 0: there is none."""
        self._unit_of_work, self._depths, self._clock = unit_of_work, depths, clock
        self._quarantine_after = quarantine_after
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._families: list[Family] = []

    def read(self) -> Sequence[Family]:
        """The gauges. Never raises because of database or queue: what cannot be read is left out, and that is said."""
        with self._lock:
            if self._clock() - self._read_at >= MAX_AGE_S:
                self._families = self._read()
                self._read_at = self._clock()
            return self._families

    def _read(self) -> list[Family]:
        rows = self._rows()
        depths = self._depths(list(rows.nodes) if rows else [])
        up: Labelled = {("database",): float(rows is not None), ("queue",): float(depths is not None)}
        families = [metrics.SOURCE_UP.family(up)]
        if rows is not None:
            families += [
                metrics.LOAD_JOBS.family(rows.loads),
                metrics.UNCONFIRMED_STOPS.family(rows.stops),
                metrics.QUARANTINES.family(rows.quarantines),
                metrics.OLDEST_XMIN_AGE.family({(): rows.xmin_age}),
            ]
        if depths is not None:
            names: dict[str | None, str] = {None: "control"}
            names.update(rows.nodes if rows else {})
            families.append(metrics.QUEUE_DEPTH.family({(names[key],): depth for key, depth in depths.items()}))
        return families

    def _rows(self) -> _Rows | None:
        try:
            with self._unit_of_work() as uow:
                loads = uow.execute(SQL["live_loads"], {"kind": _LOAD}).all()
                stops = uow.execute(SQL["unconfirmed_stops"]).all()
                held = uow.execute(SQL["quarantines"], {"after": self._quarantine_after}).all()
                nodes = uow.execute(SQL["node_queues"]).all()
                age = uow.execute(SQL["oldest_xmin_age"]).scalar_one()
        except StorageUnavailable as error:
            log.warning("a scrape gets no figures of the database: %s", error.message)
            return None
        return _Rows(
            loads={(row.state, row.phase): float(row.jobs) for row in loads},
            stops={(row.name,): float(row.jobs) for row in stops},
            quarantines={(row.model, row.node, row.cause): float(row.failures) for row in held},
            nodes={row.id: row.name for row in nodes},
            xmin_age=float(age),
        )
