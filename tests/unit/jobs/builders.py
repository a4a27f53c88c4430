"""Valid jobs; a test sets only what it is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from localai.ids import JobId, NodeId, OwnerId
from localai.jobs.job import Job, State, StopState, Windows
from localai.jobs.operation_rules import OpState

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
WINDOWS = Windows()
OWNER = OwnerId("control-1")
NODE = NodeId("node-1")


def at(seconds: float) -> datetime:
    """A moment relative to `NOW`."""
    return NOW + timedelta(seconds=seconds)


def queued(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": JobId("job-1"),
        "kind": "model.load",
        "subject": "m",
        "generation": 7,
        "created_at": at(-60),
        "read_at": NOW,
        "dispatch_window_s": 10.0,
        "dispatch_expires_at": at(5),
    }
    return Job(**{**values, **changes})


def running(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "state": State.RUNNING,
        "owner": OWNER,
        "lease_expires_at": at(20),
        "attempts": 1,
        "started_at": at(-30),
        "phase_started_at": at(-30),
        "dispatch_window_s": None,
        "dispatch_expires_at": None,
        "revision": "r1",
    }
    return queued(**{**values, **changes})


def sent(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "node_id": NODE,
        "op_generation": 7,
        "op_state": OpState.SENT,
        "placed_at": at(-20),
        "dispatch_window_s": 10.0,
        "dispatch_expires_at": at(-1),
    }
    return running(**{**values, **changes})


def claimed(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "node_incarnation": 3,
        "op_state": OpState.CLAIMED,
        "op_claim_seq": 10,
        "op_seen_at": at(-2),
        "dispatch_window_s": None,
        "dispatch_expires_at": None,
    }
    return sent(**{**values, **changes})


def ready(**changes: Any) -> Job:
    return claimed(**{"op_state": OpState.READY, **changes})


def stopping(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "state": State.CANCELLED,
        "lease_expires_at": None,
        "finished_at": at(-10),
        "stop_state": StopState.PENDING,
        "stop_deadline": at(140),
        "stop_next_at": at(-1),
        "hold_until": at(140),
        "error_cause": "cancelled",
    }
    return claimed(**{**values, **changes})
