"""What every bus promises about one question to one node: an answer, or one of four errors that are never merged."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from localai.bus import subjects
from localai.clock import boottime
from localai.errors import NodeQuiet, NodeUnreachable, NoRoute, WorkerRefused
from tests.contract.bus.conftest import World
from tests.loopback import LIMIT_S

pytestmark = pytest.mark.contract

NODE = "11111111-2222-3333-4444-555555555555"


def test_the_answer_is_the_responders(world: World) -> None:
    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {"outcome": "terminated", "job": payload["job_id"]})
    world.settle()
    answer = world.frontend.request(NODE, subjects.MODEL_STOP, {"job_id": 2**62}, LIMIT_S)
    assert answer == {"outcome": "terminated", "job": 2**62}


def test_an_empty_answer_is_an_answer(world: World) -> None:
    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {})
    world.settle()
    assert world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S) == {}


def test_bu_03_nobody_listening_is_no_route_at_once(world: World) -> None:
    world.settle()
    started = boottime()
    with pytest.raises(NoRoute):
        world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)
    assert boottime() - started < LIMIT_S / 2


def test_bu_03_another_operation_of_a_listening_node_is_no_route(world: World) -> None:
    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {})
    world.settle()
    with pytest.raises(NoRoute):
        world.frontend.request(NODE, "backend.list", {}, LIMIT_S)


def test_bu_03_a_slow_answer_is_a_quiet_node(world: World) -> None:
    release = threading.Event()

    def slow(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        release.wait(LIMIT_S)
        return {}

    world.node.serve(NODE, subjects.MODEL_STOP, slow)
    world.settle()
    try:
        with pytest.raises(NodeQuiet):
            world.frontend.request(NODE, subjects.MODEL_STOP, {}, 0.3)
    finally:
        release.set()


def test_a_bus_that_is_away_is_an_unreachable_node(world: World) -> None:
    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {})
    world.settle()
    world.cut()
    with pytest.raises(NodeUnreachable):
        world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)


def test_a_closed_bus_is_an_unreachable_node(world: World) -> None:
    world.frontend.close()
    with pytest.raises(NodeUnreachable):
        world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)


def test_an_error_in_the_answer_is_the_workers_refusal_with_its_text(world: World) -> None:
    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {"error": "no such process"})
    world.settle()
    with pytest.raises(WorkerRefused) as refused:
        world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)
    assert refused.value.facts["reason"] == "no such process"


def test_an_empty_error_is_no_refusal(world: World) -> None:
    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {"error": "", "done": True})
    world.settle()
    assert world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)["done"] is True


def test_a_responder_that_raises_our_error_refuses_with_its_text(world: World) -> None:
    def refuse(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        raise NoRoute("the process ended an hour ago")

    world.node.serve(NODE, subjects.MODEL_STOP, refuse)
    world.settle()
    with pytest.raises(WorkerRefused) as refused:
        world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)
    assert refused.value.facts["reason"] == "the process ended an hour ago"


def test_a_responder_that_breaks_refuses_and_goes_on_serving(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def broken(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        raise RuntimeError("on purpose")

    world.node.serve(NODE, subjects.MODEL_STOP, broken)
    world.settle()
    for _ in range(2):
        with pytest.raises(WorkerRefused):
            world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S)
    assert "on purpose" in caplog.text


def test_a_slow_responder_delays_no_other_question(world: World) -> None:
    release = threading.Event()
    entered = threading.Event()

    def slow(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        if payload.get("slow"):
            entered.set()
            release.wait(LIMIT_S)
        return {"slow": payload.get("slow", False)}

    world.node.serve(NODE, subjects.MODEL_STOP, slow)
    world.settle()
    first: list[Mapping[str, Any]] = []
    asking = threading.Thread(
        target=lambda: first.append(world.frontend.request(NODE, subjects.MODEL_STOP, {"slow": True}, LIMIT_S))
    )
    asking.start()
    try:
        assert entered.wait(LIMIT_S)
        assert world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S) == {"slow": False}
    finally:
        release.set()
        asking.join(LIMIT_S)
    assert first == [{"slow": True}]


def test_a_handler_of_an_event_may_ask_a_node(world: World) -> None:
    answers: list[Mapping[str, Any]] = []
    done = threading.Event()

    def handle(subject: str, payload: object) -> None:
        answers.append(world.frontend.request(NODE, subjects.MODEL_STOP, {}, LIMIT_S))
        done.set()

    world.node.serve(NODE, subjects.MODEL_STOP, lambda payload: {"asked": True})
    world.frontend.subscribe(subjects.NODES_CHANGED, handle)
    world.settle()
    world.frontend.publish(subjects.NODES_CHANGED, {})
    assert done.wait(LIMIT_S)
    assert answers == [{"asked": True}]
