"""What requests about jobs may hold: the filters of a list, and the attempt that a cancel names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from localai.errors import BadInput
from localai.ids import JobId, NodeId, is_uuid
from localai.jobs.job import State
from localai.jobs.ports import JobFilter
from localai.whole_numbers import whole_number

_LIMIT, _MOST = 50, 500


#: When a job was created, None where there is none.
CreatedAt = Callable[[str], datetime | None]


def read_job_filter(query: Mapping[str, str], created_at: CreatedAt) -> JobFilter:
    """The filter in a query string. Raises BadInput that names the parameter."""
    return JobFilter(
        state=_state(query.get("state")),
        kind=query.get("kind") or None,
        subject=query.get("subject") or None,
        node_id=_node(query.get("node")),
        limit=_limit(query.get("limit")),
        before=_before(query.get("before"), created_at),
    )


def _state(text: str | None) -> State | None:
    try:
        return State(text) if text else None
    except ValueError:
        raise BadInput("state", text, ", ".join(state.value for state in State)) from None


def _node(text: str | None) -> NodeId | None:
    if text and not is_uuid(text):
        raise BadInput("node", text, "the id of a node")
    return NodeId(text) if text else None


def _limit(text: str | None) -> int:
    if text is None or text == "":
        return _LIMIT
    found = whole_number(text)
    if found is None or not 1 <= found <= _MOST:
        raise BadInput("limit", text, f"a whole number from 1 to {_MOST}")
    return found


def _before(text: str | None, created_at: CreatedAt) -> tuple[datetime, JobId] | None:
    """Where a page begins: after the last job of the page before, named by its id."""
    if not text:
        return None
    moment = created_at(text) if is_uuid(text) else None
    if moment is None:
        raise BadInput("before", text, "the id of the last job of the page before")
    return moment, JobId(text)


def read_load_cancel(body: Mapping[str, Any]) -> JobId:
    """The attempt that a cancel names. Raises BadInput for any other body than exactly ``{"job_id": "<uuid>"}``."""
    for name in body:
        if name != "job_id":
            raise BadInput(name, body[name], "no field but job_id")
    found = body.get("job_id")
    if not isinstance(found, str) or not is_uuid(found):
        raise BadInput("job_id", found, "the id of an attempt, as load-status shows it")
    return JobId(found.lower())
