"""What the threads that talk to frontends make of the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from localai.errors import (
    LocalAIError,
    NodeNameTaken,
    NodeRemoved,
    NotAuthenticated,
    NotFound,
    NotTheNextLife,
    Replaced,
    StartRefused,
)
from localai.jobs.operation_rules import Answer, OperationAnswer, Report, ReportAnswer
from tests.unit.worker_agent.factories import JOB, Clock, order, running
from worker_agent.frontends import NoFrontend, Registered
from worker_agent.heartbeat import REFUSALS_THAT_END, Heartbeat
from worker_agent.operations import Operations
from worker_agent.registration import Progress, register
from worker_agent.reports import Intervals, Reporter
from worker_agent.telemetry.figures import Figures

pytestmark = pytest.mark.unit

REGISTERED = Registered("n", "node", "pending", 4, "own")


class Frontend:
    """Answers in order; a LocalAIError is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.bodies: list[Any] = []

    def _next(self, body: Any) -> Any:
        self.bodies.append(body)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, LocalAIError):
            raise answer
        return answer

    def heartbeat(self, node_id: str, body: Mapping[str, Any]) -> str:
        return str(self._next(body))

    def register(self, body: Mapping[str, Any]) -> Registered:
        found: Registered = self._next(body)
        return found

    def report(self, node_id: str, build: Callable[[], Report]) -> tuple[ReportAnswer, float]:
        return self._next(build()), 1000.0


def heartbeat(frontend: Frontend, figures: Mapping[str, Any] | None = None) -> tuple[Heartbeat, list[str]]:
    ends: list[str] = []
    made = Heartbeat(
        frontends=frontend,  # type: ignore[arg-type]  # the part of it that a heartbeat uses
        registered=REGISTERED,
        figures=lambda: figures or {},
        replaced=lambda text: ends.append(f"replaced: {text}"),
        unknown=lambda text: ends.append(f"unknown: {text}"),
        removed=lambda text: ends.append(f"removed: {text}"),
    )
    return made, ends


def test_nd_02_a_heartbeat_carries_the_incarnation_and_what_could_be_read() -> None:
    frontend = Frontend("healthy")
    made, _ = heartbeat(frontend, {"available_ram": 5})
    made.beat()
    assert frontend.bodies == [{"incarnation": 4, "available_ram": 5}]
    assert made.status == "healthy"


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        ((Replaced("newer"),), ["replaced: newer"]),
        ((NotFound("no such node"),), ["unknown: no such node"]),
        ((NodeRemoved("gone for good"),), ["removed: gone for good"]),
        ((NoFrontend("down"),), []),
        ((NotAuthenticated("no"), "healthy", NotAuthenticated("no")), []),
    ],
)
def test_what_ends_an_agent_and_what_does_not(answers: tuple[Any, ...], ends: list[str]) -> None:
    made, said = heartbeat(Frontend(*answers))
    for _ in answers:
        made.beat()
    assert said == ends


def test_a_credential_that_is_refused_again_and_again_ends_the_agent() -> None:
    made, said = heartbeat(Frontend(NotAuthenticated("revoked")))
    for _ in range(REFUSALS_THAT_END):
        assert said == []
        made.beat()
    assert len(said) == 1


def test_registration_asks_again_while_nobody_answers() -> None:
    stop = threading.Event()
    frontend = Frontend(NoFrontend("down"), REGISTERED)
    assert register(frontend, {"name": "node"}, stop) == REGISTERED  # type: ignore[arg-type]
    assert len(frontend.bodies) == 2


def test_registration_names_the_newest_life_once_a_frontend_said_which_it_is() -> None:
    frontend = Frontend(NotTheNextLife(3), NoFrontend("down"), REGISTERED)
    assert register(frontend, {"name": "node"}, threading.Event()) == REGISTERED  # type: ignore[arg-type]
    assert [body["after"] for body in frontend.bodies] == [0, 3, 3]


def test_a_worker_whose_name_is_taken_asks_again_and_says_why() -> None:
    progress = Progress()
    frontend = Frontend(NodeNameTaken("the name is taken"), REGISTERED)
    stop = threading.Event()
    assert register(frontend, {}, stop, progress) == REGISTERED  # type: ignore[arg-type]
    assert "the name is taken" in progress.reason


def test_registration_gives_up_when_the_agent_is_to_end() -> None:
    stop = threading.Event()
    stop.set()
    assert register(Frontend(REGISTERED), {}, stop) is None  # type: ignore[arg-type]


def test_a_wrong_token_ends_the_start_with_the_name_of_its_setting() -> None:
    with pytest.raises(StartRefused, match="LOCALAI_REGISTRATION_TOKEN"):
        register(Frontend(NotAuthenticated("no")), {}, threading.Event())  # type: ignore[arg-type]


class Group:
    def __init__(self) -> None:
        self.ends = 0

    def has_exited(self) -> bool:
        return False

    def end_soon(self, grace_s: float | None = None) -> None:
        self.ends += 1


def reporter(frontend: Frontend, operations: Operations) -> tuple[Reporter, list[str]]:
    ends: list[str] = []
    made = Reporter(
        frontends=frontend,  # type: ignore[arg-type]  # the part of it that a report uses
        operations=operations,
        registered=REGISTERED,
        intervals=Intervals(1.0, 10.0),
        news=threading.Event(),
        replaced=ends.append,
    )
    return made, ends


def loaded() -> tuple[Operations, Group]:
    operations = Operations(kill_ttl_s=90.0, clock=Clock(), changed=lambda: None)
    group = Group()
    work = operations.enter((JOB, 1))
    assert work is not None
    operations.granted((JOB, 1), order(), 1000.0)
    operations.attach(running(), group)
    operations.become_ready((JOB, 1), "m")
    operations.thread_done((JOB, 1), work)
    return operations, group


def test_a_report_names_everything_and_each_has_a_higher_number() -> None:
    operations, _ = loaded()
    complete = ReportAnswer(operations=(OperationAnswer(job_id=JOB, op_generation=1, answer=Answer.COMPLETE),))
    frontend = Frontend(complete, ReportAnswer())
    made, _ = reporter(frontend, operations)
    assert made.report_once()
    assert made.report_once()
    first, second = frontend.bodies
    assert (first.incarnation, first.seq, second.seq) == (4, 1, 2)
    assert (len(first.operations), len(first.processes)) == (1, 1)
    assert (len(second.operations), len(second.processes)) == (0, 1)


def test_an_answer_that_names_a_process_ends_it() -> None:
    operations, group = loaded()
    made, _ = reporter(Frontend(ReportAnswer(stop_processes=("p1", "unknown"))), operations)
    made.report_once()
    assert group.ends == 1


@pytest.mark.parametrize("answer", [NoFrontend("down"), NotAuthenticated("no"), NotFound("no node")])
def test_bu_04_no_answer_to_a_report_changes_nothing(answer: LocalAIError) -> None:
    operations, group = loaded()
    made, ends = reporter(Frontend(answer), operations)
    assert not made.report_once()
    assert (group.ends, ends) == (0, [])


def test_a_report_of_a_replaced_incarnation_ends_the_agent() -> None:
    operations, _ = loaded()
    made, ends = reporter(Frontend(Replaced("newer")), operations)
    assert not made.report_once()
    assert ends == ["newer"]


def test_nd_02_a_reading_that_fails_is_left_out_and_the_others_stay() -> None:
    def broken() -> dict[str, int]:
        raise RuntimeError("driver")

    figures = Figures({"a": lambda: {"total_ram": 1}, "gpu": broken, "b": broken})
    assert figures() == {"total_ram": 1}
