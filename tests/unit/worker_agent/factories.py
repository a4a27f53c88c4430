"""Valid values of the agent; a test sets only the fields it is about."""

from __future__ import annotations

from typing import Any

from localai.jobs.operation_rules import Order
from worker_agent.processes.rules import Operation, Running, Stage

JOB = "11111111-1111-1111-1111-111111111111"


def operation(stage: Stage = Stage.WORKING, **changes: Any) -> Operation:
    values: dict[str, Any] = {
        "job_id": JOB,
        "op_generation": 1,
        "stage": stage,
        "process_key": None if stage is Stage.CLAIMING else "m#0",
        **changes,
    }
    return Operation(**values)


def running(**changes: Any) -> Running:
    values: dict[str, Any] = {
        "process_instance": "p1",
        "job_id": JOB,
        "op_generation": 1,
        "model": "m",
        "slot": 0,
        "address": "host:50051",
        "pid": 7,
        **changes,
    }
    return Running(**values)


def order(**changes: Any) -> Order:
    values: dict[str, Any] = {
        "job_id": JOB,
        "op_generation": 1,
        "kind": "model.load",
        "model": "m",
        "slot": 0,
        "backend": "fault",
        "identity": "m",
        "model_file": None,
        "files": (),
        "model_options": {},
        "file_fields": {},
        "env": {},
        "deadline_s": 1000.0,
        "install_timeout_s": 60.0,
        "start_timeout_s": 30.0,
        "load_timeout_s": 30.0,
        "load_timeout_reason": "pinned",
        "stall_window_s": 30.0,
        **changes,
    }
    return Order(**values)


class Clock:
    """A clock that a test moves."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
