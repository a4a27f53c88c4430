"""The history of real processes, as PostgreSQL's rows and `job_events` tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from localai.db.unit_of_work import UnitOfWork
from localai.jobs.ports import EventRow
from tests.simulator.history import Bounds, History, JobFacts, ProcessFacts, Routed

_JOBS = "SELECT {} FROM jobs ORDER BY created_at, id"
_EVENTS = "SELECT {} FROM job_events ORDER BY id"
_ROUTED = "SELECT job_id, updated_at FROM replicas WHERE state = 'loaded'"


def read_history(
    unit_of_work: Callable[[], UnitOfWork], bounds: Bounds, processes: Sequence[ProcessFacts] = ()
) -> History:
    """Everything the database knows, in one snapshot. ``processes`` come from who ran them."""
    with unit_of_work() as uow:

        def rows(statement: str) -> Sequence[Mapping[Any, Any]]:
            return uow.execute(statement).mappings().all()

        jobs = [JobFacts(**row) for row in rows(_JOBS.format(", ".join(JobFacts.__slots__)))]
        events = [EventRow(**row) for row in rows(_EVENTS.format(", ".join(EventRow.__slots__)))]
        routed = [Routed(row["job_id"], row["updated_at"]) for row in rows(_ROUTED)]
        now: datetime = uow.execute("SELECT clock_timestamp()").scalar_one()
    return History(
        bounds=bounds,
        jobs={job.id: job for job in jobs},
        events=events,
        until=now,
        processes=processes,
        routed=routed,
    )
