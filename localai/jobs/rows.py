"""How a row of the jobs table becomes a value, and how the event of a move is written beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sqlalchemy import CursorResult, RowMapping

from localai import callers, crash_points
from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Claim,
    ConfirmStop,
    Event,
    Fail,
    Finish,
    FinishWork,
    GiveUpStop,
    Lapse,
    Missing,
    NewIncarnation,
    Place,
    Release,
    Relocate,
    Requeue,
    Resend,
    RetryStop,
    Take,
    WorkGone,
)
from localai.jobs.job import Job, State, StopState
from localai.jobs.operation_rules import OpState, Phase

SQL = load_queries("localai.jobs")

#: What each move is called in `job_events`. A job has at most one event named like a terminal state.
EVENT_NAMES: Mapping[type[Event], str] = {
    Take: "taken",
    Place: "placed",
    Relocate: "placed",
    Resend: "resent",
    Claim: "claimed",
    Missing: "missing",
    Finish: "succeeded",
    FinishWork: "succeeded",
    WorkGone: "succeeded",
    Fail: "failed",
    Adopt: "adopted",
    Release: "released",
    Lapse: "failed",
    NewIncarnation: "failed",
    Cancel: "cancelled",
    Requeue: "requeued",
    ConfirmStop: "stop_confirmed",
    RetryStop: "stop_sent",
    GiveUpStop: "stop_given_up",
}

_COLUMNS = tuple(field.name for field in fields(Job) if field.name != "node_name")


def job_of(row: RowMapping) -> Job:
    """The job of a row that was read with its clock as ``read_at``; columns this version does not know are ignored."""
    values = {name: row[name] for name in _COLUMNS}
    values["state"] = State(row["state"])
    values["phase"] = Phase(row["phase"])
    values["stop_state"] = StopState(row["stop_state"])
    values["op_state"] = OpState(row["op_state"]) if row["op_state"] else None
    return Job(node_name=row.get("node_name"), **values)


def jobs_of(result: CursorResult[Any]) -> list[Job]:
    """Every job of a result."""
    return [job_of(row) for row in result.mappings()]


def one_job(result: CursorResult[Any]) -> Job | None:
    """The job of a result, or None where the statement touched no row."""
    row = result.mappings().first()
    return None if row is None else job_of(row)


def record(uow: UnitOfWork, event: str, job: Job, actor: str, detail: Mapping[str, Any] | None = None) -> None:
    """Write the event of an accepted move; ``job`` is the row after it. It names the caller whose key asked for it."""
    caller = callers.current()
    if caller is not None:
        detail = {**(detail or {}), **caller.to_json()}
    uow.execute(
        SQL["record_event"],
        {
            "id": job.id,
            "event": event,
            "state": job.state,
            "phase": job.phase,
            "generation": job.generation,
            "op_generation": job.op_generation,
            "actor": actor,
            "node_id": job.node_id,
            "detail": to_json(detail),
        },
    )
    crash_points.reach_commit(job.kind, event, uow.after_commit)


def record_end(uow: UnitOfWork, move: type[Event], job: Job, actor: str) -> None:
    """Write the terminal event of a job that ended without success, with what the end means for its subject."""
    detail = {
        "by": move.__name__,
        "cause": job.error_cause,
        "error": job.error,
        "stop_state": job.stop_state,
        "node_incarnation": job.node_incarnation,
    }
    record(uow, EVENT_NAMES[move], job, actor, detail)


def to_json(value: Mapping[str, Any] | None) -> str | None:
    """JSON text of a value for a jsonb parameter, which holds no NUL, not even as an escape."""
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, default=str).replace("\\u0000", "\ufffd")
