"""When a process that serves nobody is ended, and what readiness says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from localai.jobs.operation_rules import OperationError
from tests.unit.worker_agent.factories import Clock, running
from worker_agent.probes import readiness
from worker_agent.processes.dialing import Dialed
from worker_agent.processes.health import HealthCheck
from worker_agent.processes.rules import Running
from worker_agent.processes.stall_rules import Activity, Heard

pytestmark = pytest.mark.unit

REFUSED, NOTHING, GREETED, ANSWERED = Heard.REFUSED, Heard.NOTHING, Heard.GREETED, Heard.ANSWERED
INTERVAL_S, WINDOW_S = 15.0, 60.0


class Watched:
    """A health check of one process, and how that process was ended."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.heard = ANSWERED
        self.activity: Activity | None = Activity(used=500, wants_to_run=False)
        self.processes = [running(ready=True, secret="a-secret-of-a-process")]
        self.asked: Mapping[int, str | None] = {}
        self.ended: list[tuple[str, float | None]] = []
        self.why = ""
        self.check = HealthCheck(
            serving=lambda: self.processes,
            hear=self._hear,
            activity=self._activity,
            end_process=self._end,
            clock=self.clock,
            interval_s=INTERVAL_S,
            stall_window_s=WINDOW_S,
        )

    def look(self, *heard: Heard) -> None:
        for self.heard in heard:
            self.check.look()
            self.clock.now += INTERVAL_S

    def _hear(self, secrets: Mapping[int, str | None]) -> Mapping[int, Heard]:
        self.asked = secrets
        return dict.fromkeys(secrets, self.heard)

    def _activity(self, process: Running) -> Activity | None:
        return self.activity

    def _end(self, instance: str, error: OperationError, grace_s: float | None = None) -> bool:
        self.ended.append((instance, grace_s))
        self.why = error.message
        return True


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_each_process_is_asked_with_its_own_secret(watched: Watched) -> None:
    watched.processes.append(running(address="host:50052", process_instance="p2", ready=True))
    watched.look(ANSWERED)
    assert watched.asked == {50051: "a-secret-of-a-process", 50052: None}


@pytest.mark.parametrize(
    ("heard", "ended"),
    [
        ((REFUSED, REFUSED, REFUSED), True),
        ((REFUSED, REFUSED, ANSWERED, REFUSED, REFUSED), False),
        ((REFUSED, REFUSED, GREETED, REFUSED, REFUSED), False),
        ((REFUSED, NOTHING, REFUSED, NOTHING, REFUSED), True),
    ],
)
def test_three_refusals_end_a_process(watched: Watched, heard: tuple[Heard, ...], ended: bool) -> None:
    watched.look(*heard)
    assert watched.ended == ([("p1", None)] if ended else [])
    assert not ended or "host:50051" in watched.why


def test_a_process_that_stands_still_for_the_window_is_killed_without_a_grace(watched: Watched) -> None:
    watched.look(NOTHING, NOTHING, NOTHING, NOTHING)
    assert watched.ended == []
    watched.look(NOTHING)
    assert watched.ended == [("p1", 0.0)]
    for part in ("m#0 stands still", "for 60 s", "host:50051", "LOCALAI_PROCESS_STALL_WINDOW allows 60 s"):
        assert part in watched.why


def test_a_process_that_greets_connections_is_busy_for_as_long_as_it_likes(watched: Watched) -> None:
    watched.look(*[GREETED] * 50)
    assert watched.ended == []


def test_a_silent_process_that_uses_the_processor_is_busy(watched: Watched) -> None:
    for used in range(20):
        watched.activity = Activity(used=used, wants_to_run=False)
        watched.look(NOTHING)
    assert watched.ended == []


def test_another_instance_under_the_same_key_does_not_inherit_the_silence(watched: Watched) -> None:
    watched.look(NOTHING, NOTHING, NOTHING, NOTHING)
    watched.processes = [running(ready=True, process_instance="p2")]
    watched.look(NOTHING, NOTHING)
    assert watched.ended == []


def test_silence_is_a_problem_from_the_second_look_and_until_an_answer(watched: Watched) -> None:
    watched.look(NOTHING)
    assert watched.check.problem() is None
    watched.look(NOTHING, NOTHING)
    said = "the process of m#0 answers nothing and has used no processor time for 30 s"
    assert watched.check.problem() == said
    watched.look(ANSWERED)
    assert watched.check.problem() is None


def test_a_process_that_is_gone_is_no_problem(watched: Watched) -> None:
    watched.look(NOTHING, NOTHING)
    watched.processes = []
    assert watched.check.problem() is None


@pytest.mark.parametrize(
    ("queue", "bus", "dialed", "process", "reason"),
    [
        (None, True, Dialed.ACCEPTED, None, None),
        (None, True, Dialed.SILENT, None, "the process of m#0 does not take a connection within 2 s"),
        ("no queue was asked", True, Dialed.ACCEPTED, None, "no queue was asked"),
        (None, False, Dialed.ACCEPTED, None, "the event bus is not connected"),
        (None, True, Dialed.REFUSED, None, "the process of m#0 refuses connections"),
        (None, True, Dialed.ACCEPTED, "it answers nothing", "it answers nothing"),
    ],
)
def test_why_an_agent_is_not_ready(
    queue: str | None, bus: bool, dialed: Dialed, process: str | None, reason: str | None
) -> None:
    found = readiness(
        queue_problem=lambda: queue,
        bus_connected=lambda: bus,
        serving=lambda: [running(ready=True)],
        dial=lambda port: dialed,
        process_problem=lambda: process,
    )
    assert found == reason
