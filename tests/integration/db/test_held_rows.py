"""Somebody who holds rows for longer than a lock is waited for costs time, and nobody's request."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from localai.db import engine as engines
from localai.db import migrate, unit_of_work
from localai.db.engine import make_engine
from localai.errors import RowsHeld
from localai.ids import new_id
from localai.jobs.ports import Intake
from localai.loads.quarantines import PgQuarantines
from localai.models.revision_rules import Standing
from localai.unloads.drain_rules import Wish
from tests.integration.world import Agent, World, in_thread
from tests.loopback import LIMIT_S

pytestmark = pytest.mark.integration

#: Whoever would lock or change a row waits; whoever reads does not.
HOLD = "LOCK TABLE subjects, nodes, jobs, replicas, failure_streaks IN EXCLUSIVE MODE"


class Repeats(logging.Handler):
    """Says when a move is made again, and why."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()
        self.facts: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "held by others" in record.getMessage():
            self.facts.append(record.fields)  # type: ignore[attr-defined]
            self.seen.set()


@pytest.fixture
def world(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The services over a database that waits for a lock for a moment only."""
    monkeypatch.setattr(engines, "LOCK_TIMEOUT_MS", 100)
    engine = make_engine(empty_database_url, application="test", pool_size=10)
    migrate.upgrade(engine)
    world = World(engine)
    yield world
    world.close()


@pytest.fixture
def repeats() -> Iterator[Repeats]:
    handler, logger = Repeats(), logging.getLogger(unit_of_work.__name__)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def _request(world: World) -> Callable[[], object]:
    model = new_id()
    return lambda: world.load_rows.request(model, "r1")[0]  # type: ignore[index]


def _lift(world: World) -> Callable[[], object]:
    return lambda: PgQuarantines(world.unit_of_work, 1, 300.0).lift("cold")


def _revise(world: World) -> Callable[[], object]:
    return lambda: world.load_rows.revise("cold", "r2")


def _cancel(world: World) -> Callable[[], object]:
    ticket = world.loads.request(new_id(), "r1")
    return lambda: [job.id == ticket.job_id for job in world.cancel_rows.cancel(ticket.job_id, "somebody")]


def _unload(world: World) -> Callable[[], object]:
    model = new_id()
    world.loads.request(model, "r1")
    return lambda: len(world.unload_rows.begin(model, "somebody").taken.cancelled)


def _drain(world: World) -> Callable[[], object]:
    agent = Agent(world)
    return lambda: world.drain_rows.begin(agent.id, Wish())[1]  # type: ignore[index]


def _resume(world: World) -> Callable[[], object]:
    agent = Agent(world)
    world.drain_rows.begin(agent.id, Wish())
    return lambda: world.drain_rows.resume(agent.id, "somebody").called_off is not None  # type: ignore[union-attr]


def _approve(world: World) -> Callable[[], object]:
    agent = Agent(world)
    return lambda: world.nodes.approve(agent.id).id == agent.id


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (_request, Intake.CREATED),
        (_revise, Standing.SET),
        (_lift, 0),
        (_cancel, [True]),
        (_unload, 1),
        (_drain, True),
        (_resume, True),
        (_approve, True),
    ],
)
def test_a_move_that_somebody_waits_for_outlives_a_holder_of_its_rows(
    world: World, repeats: Repeats, prepare: Callable[[World], Callable[[], object]], expected: object
) -> None:
    move = prepare(world)
    with world.holding(HOLD):
        thread, outcome = in_thread(move)
        assert repeats.seen.wait(LIMIT_S), "it was not made again"
    thread.join(LIMIT_S)
    assert outcome == [expected]
    assert repeats.facts[-1]["reason"] == "55P03"


def test_a_holder_that_never_lets_go_ends_the_move_with_the_reason(
    world: World, repeats: Repeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_of_work, "TRIES", 3)
    model = new_id()
    with world.holding(HOLD), pytest.raises(RowsHeld) as refused:
        world.load_rows.request(model, "r1")
    assert refused.value.facts == {"reason": "55P03"}
    assert [facts["tried"] for facts in repeats.facts] == [1, 2]
    assert world.load_rows.current(model) is None
