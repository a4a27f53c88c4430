"""When a process that serves nobody is ended, and what readiness says."""

from __future__ import annotations

import pytest

from localai.jobs.operation_rules import OperationError
from tests.unit.worker_agent.factories import running
from worker_agent.probes import readiness
from worker_agent.processes.health import Dialed, HealthCheck

pytestmark = pytest.mark.unit


def looked(*dials: Dialed) -> list[str]:
    """The processes that were ended while it dialed like that."""
    ended: list[str] = []
    answers = iter(dials)

    def end(instance: str, error: OperationError) -> bool:
        assert "host:50051" in error.message
        ended.append(instance)
        return True

    check = HealthCheck(serving=lambda: [running(ready=True)], dial=lambda port: next(answers), end_process=end)
    for _ in dials:
        check.look()
    return ended


REFUSED, SILENT, ACCEPTED = Dialed.REFUSED, Dialed.SILENT, Dialed.ACCEPTED


@pytest.mark.parametrize(
    ("dials", "ended"),
    [
        ((REFUSED, REFUSED, REFUSED), ["p1"]),
        ((REFUSED, REFUSED, ACCEPTED, REFUSED, REFUSED), []),
        ((SILENT, SILENT, SILENT, SILENT), []),
        ((REFUSED, SILENT, REFUSED, SILENT, REFUSED), ["p1"]),
    ],
)
def test_three_refusals_end_a_process_and_silence_is_busy(dials: tuple[Dialed, ...], ended: list[str]) -> None:
    assert looked(*dials) == ended


@pytest.mark.parametrize(
    ("queue", "bus", "dialed", "reason"),
    [
        (None, True, ACCEPTED, None),
        (None, True, SILENT, None),
        ("no queue was asked", True, ACCEPTED, "no queue was asked"),
        (None, False, ACCEPTED, "the event bus is not connected"),
        (None, True, REFUSED, "the process of m#0 refuses connections"),
    ],
)
def test_why_an_agent_is_not_ready(queue: str | None, bus: bool, dialed: Dialed, reason: str | None) -> None:
    found = readiness(
        queue_problem=lambda: queue,
        bus_connected=lambda: bus,
        serving=lambda: [running(ready=True)],
        dial=lambda port: dialed,
    )
    assert found == reason
