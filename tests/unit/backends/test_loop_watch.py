"""A process whose engine stands still because of a grammar ends; one that reads a long prompt does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.loopback import eventually
from tests.unit.backends.conftest import LoadModule

pytestmark = pytest.mark.unit

LIMIT_S = 30
CONSTRAINED = {"grammar": 'root ::= "a"'}


def progress(processed: int) -> dict[str, Any]:
    return {"prompt_progress": {"processed": processed, "total": 100}}


class Loop:
    """The loop of an engine, which answers while it is not held."""

    def __init__(self) -> None:
        self.asked, self.free = threading.Event(), threading.Event()
        self.free.set()

    def ask(self) -> None:
        self.asked.set()
        self.free.wait(LIMIT_S)


@pytest.fixture
def module(load_module: LoadModule, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    found = load_module("llama-cpp", "loop_watch")
    monkeypatch.setattr(found, "_INTERVAL_S", 0.01)
    return found


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.free.set()
    eventually(lambda: watchers() == 0, "no watch without a constrained answer")


def watchers() -> int:
    return sum(thread.name.startswith("loop-") for thread in threading.enumerate())


def test_a_loop_that_a_grammar_holds_ends_the_process(module: ModuleType, loop: Loop) -> None:
    given_up: list[str] = []
    watch = module.LoopWatch(loop.ask, given_up.append, 0.1)
    loop.free.clear()
    with watch.during(CONSTRAINED):
        eventually(lambda: bool(given_up), "the end of the process")
        loop.free.set()
    assert "the grammar of a request has held the engine" in given_up[0]


def test_a_loop_is_not_judged_while_a_prompt_is_read(module: ModuleType, loop: Loop) -> None:
    judged_in: list[bool] = []
    watch = module.LoopWatch(loop.ask, lambda why: judged_in.append(other.reads_prompt), 0.1)
    with watch.during({"prompt": "long"}) as other, watch.during(CONSTRAINED) as answer:
        answer.saw(progress(100))
        other.saw(progress(50))
        loop.free.clear()
        assert loop.asked.wait(LIMIT_S)
        threading.Event().wait(0.5)
        other.saw(progress(100))
        eventually(lambda: bool(judged_in), "the loop is judged once the prompt is read")
        loop.free.set()
    assert judged_in[0] is False


def test_a_loop_that_answers_is_left_alone_and_asked_for_constrained_answers_only(
    module: ModuleType, loop: Loop
) -> None:
    given_up: list[str] = []
    watch = module.LoopWatch(loop.ask, given_up.append, LIMIT_S)
    with watch.during({"prompt": "x"}):
        assert watchers() == 0
    for name in ("grammar", "response_format", "tools"):
        loop.asked.clear()
        with watch.during({name: "x"}):
            assert loop.asked.wait(LIMIT_S)
    eventually(lambda: watchers() == 0, "the watch ends with the last constrained answer")
    assert given_up == []
