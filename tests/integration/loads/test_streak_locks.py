"""Transactions that change several rows of failures in a row never wait for each other in a circle."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import CursorResult, Engine

from localai.db.unit_of_work import UnitOfWork
from localai.ids import NodeId, OwnerId, new_id
from localai.jobs import attempts
from localai.jobs.job import Job
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.operation_rules import OperationError, OperationReport, OpState, Phase
from localai.jobs.ports import NewJob
from localai.jobs.rows import SQL
from localai.jobs.sweep_store import PgSweepStore
from localai.loads.ports import Reservation
from localai.loads.quarantines import PgQuarantines
from localai.models.revision_rules import Standing
from localai.placement.rules import Placement
from tests.integration.world import Agent, World, in_thread
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration
LOST = OwnerId("control-lost")


class AfterTheFirst:
    """Stops a transaction behind the first failure that it counts."""

    def __init__(self) -> None:
        self.counted, self.go_on = threading.Event(), threading.Event()

    def units(self, engine: Engine) -> Callable[[], UnitOfWork]:
        return lambda: _StoppingUnit(engine, self)


class _StoppingUnit(UnitOfWork):
    def __init__(self, engine: Engine, stop: AfterTheFirst) -> None:
        super().__init__(engine)
        self._stop = stop

    def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> CursorResult[Any]:
        result = super().execute(statement, parameters)
        if statement == SQL["count_failure"] and not self._stop.counted.is_set():
            self._stop.counted.set()
            assert self._stop.go_on.wait(LIMIT_S)
        return result


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs get ids in the order in which they are asked for."""
    prefix = new_id()[:-2]

    def counted() -> Iterator[str]:
        yield from (f"{prefix}{number:02d}" for number in range(100))

    monkeypatch.setattr(attempts, "new_id", counted().__next__)


@pytest.fixture(autouse=True)
def no_streaks(world: World) -> None:
    world.sql("DELETE FROM failure_streaks")


def failed_on_its_node(world: World, model: str, slot: int, agent: Agent) -> Job:
    """A load that its agent says is refused, and whose owner does not hear it."""
    _, job = world.jobs.request(NewJob(kind=MODEL_LOAD, subject=model, revision="r1", slot=slot))
    taken = world.jobs.take(job.id, job.generation, LOST)
    assert taken is not None
    there = Placement(node_id=NodeId(agent.id), node_name=agent.name)
    placed = world.load_rows.place(
        taken, LOST, lambda _: there, Reservation(backend="fault", reserved_bytes=1, order={})
    )
    assert isinstance(placed, Job) and placed.op_generation is not None, placed
    operation = (placed.id, placed.op_generation)
    assert world.operation_rows.claim(there.node_id, agent.incarnation, *operation, agent.seq).granted
    agent.operations[operation] = OperationReport(
        job_id=placed.id,
        op_generation=placed.op_generation,
        op_state=OpState.ENDED,
        phase=Phase.LOADING,
        error=OperationError(cause="load_refused", message="no"),
    )
    agent.report()
    return placed


def lapse(world: World, *jobs: Job) -> None:
    for job in jobs:
        world.lapse(job.id)
        world.silence(job.id)


def meet(
    world: World, lost: list[Job], other: Callable[[], object], prepare: Callable[[], object] = lambda: None
) -> Any:
    """A sweep over ``lost`` stands behind its first failure, the other transaction comes, and then the sweep goes on."""
    stop = AfterTheFirst()
    lapse(world, *lost)
    sweep, swept = in_thread(lambda: PgSweepStore(stop.units(world.engine), world.windows).lapse(100))
    try:
        assert stop.counted.wait(LIMIT_S)
        prepare()
        second, outcome = in_thread(other)
        eventually(world.waiting_for_a_lock, "the other transaction at a row of the sweep")
    finally:
        stop.go_on.set()
    sweep.join(LIMIT_S)
    second.join(LIMIT_S)
    assert [sorted(job.id for job in jobs) for jobs in swept] == [sorted(job.id for job in lost)]  # type: ignore[attr-defined]
    return outcome[0]


@pytest.mark.usefixtures("ids")
def test_two_sweeps_that_fail_the_same_models_in_another_order_both_end(world: World) -> None:
    for model in ("a", "b"):
        world.load_rows.revise(model, "r1")
    agent = Agent(world)
    a0, b0 = failed_on_its_node(world, "a", 0, agent), failed_on_its_node(world, "b", 0, agent)
    b1, a1 = failed_on_its_node(world, "b", 1, agent), failed_on_its_node(world, "a", 1, agent)
    assert a0.id < b0.id < b1.id < a1.id
    failed = meet(world, [a0, b0], lambda: world.sweeps.lapse(100), lambda: lapse(world, a1, b1))
    assert isinstance(failed, list), failed
    assert {job.id for job in failed} == {a1.id, b1.id}
    rows = world.sql("SELECT model, failures FROM failure_streaks ORDER BY model")
    assert [(row["model"], row["failures"]) for row in rows] == [("a", 2), ("b", 2)]


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize("how", ["lift", "other config"])
def test_a_sweep_and_what_ends_a_quarantine_both_end(world: World, how: str) -> None:
    model = f"m-{new_id()}"
    world.load_rows.revise(model, "r1")
    first, last = sorted((Agent(world), Agent(world)), key=lambda agent: agent.id)
    # Rows that lie in the table in the other order than that of their key.
    for slot, agent in enumerate((last, first)):
        lapse(world, failed_on_its_node(world, model, slot, agent))
        world.sweeps.lapse(100)
    lost = [failed_on_its_node(world, model, 2, first), failed_on_its_node(world, model, 3, last)]
    quarantines = PgQuarantines(world.unit_of_work, 2, 300.0)
    ends = {"lift": lambda: quarantines.lift(model), "other config": lambda: world.load_rows.revise(model, "r2")}
    assert meet(world, lost, ends[how]) == {"lift": 2, "other config": Standing.SET}[how]
    assert world.sql("SELECT * FROM failure_streaks") == []
