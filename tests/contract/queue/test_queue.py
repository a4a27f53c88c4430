"""What every task queue promises: a wake-up reaches the right queue at least once, and a lost node leaves nothing."""

from __future__ import annotations

import threading

import dramatiq
import pytest

from localai.ids import JobId, NodeId
from tasks import names
from tasks.actors import register_control_actors
from tasks.queues import CONTROL_QUEUE, node_queue
from tasks.worker import start_worker
from tests.contract.queue.conftest import World, is_empty, taken
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.contract

A, B = NodeId("11111111-aaaa-4aaa-8aaa-111111111111"), NodeId("22222222-bbbb-4bbb-8bbb-222222222222")
JOB, OTHER = JobId("33333333-cccc-4ccc-8ccc-333333333333"), JobId("44444444-dddd-4ddd-8ddd-444444444444")


def test_an_order_reaches_the_queue_of_its_node_and_no_other(world: World) -> None:
    world.wakeups().send_order(A, JOB, 7)
    agent = world.process()
    assert is_empty(agent, node_queue(B))
    assert is_empty(agent, CONTROL_QUEUE)
    assert taken(agent, node_queue(A), 1) == [(names.RUN_OPERATION, (JOB, 7))]
    assert is_empty(agent, node_queue(A))


def test_a_wake_up_reaches_the_control_queue(world: World) -> None:
    world.wakeups().wake_control(JOB, 3)
    assert taken(world.process(), CONTROL_QUEUE, 1) == [(names.STEP_JOB, (JOB, 3))]


def test_an_order_waits_for_an_agent_that_comes_later(world: World) -> None:
    wakeups = world.wakeups()
    for generation in range(3):
        wakeups.send_order(A, JOB, generation)
    assert sorted(taken(world.process(), node_queue(A), 3)) == [(names.RUN_OPERATION, (JOB, n)) for n in range(3)]


def test_tq_06_the_same_message_may_arrive_twice(world: World) -> None:
    wakeups = world.wakeups()
    wakeups.send_order(A, JOB, 1)
    wakeups.send_order(A, JOB, 1)
    assert taken(world.process(), node_queue(A), 2) == [(names.RUN_OPERATION, (JOB, 1))] * 2


def test_a_forgotten_node_leaves_nothing_and_others_keep_theirs(world: World) -> None:
    wakeups = world.wakeups()
    wakeups.send_order(A, JOB, 1)
    wakeups.send_order(B, OTHER, 2)
    wakeups.forget_node(A)
    agent = world.process()
    assert is_empty(agent, node_queue(A))
    assert taken(agent, node_queue(B), 1) == [(names.RUN_OPERATION, (OTHER, 2))]


def test_forgetting_a_node_nobody_knows_is_no_error(world: World) -> None:
    wakeups = world.wakeups()
    wakeups.forget_node(A)
    wakeups.forget_node(A)
    wakeups.send_order(A, JOB, 1)
    assert taken(world.process(), node_queue(A), 1) == [(names.RUN_OPERATION, (JOB, 1))]


def test_a_worker_runs_what_its_queues_carry_by_name(world: World) -> None:
    agent = world.process()
    ran: list[tuple[str, str, int]] = []

    @dramatiq.actor(broker=agent, actor_name=names.RUN_OPERATION, queue_name=node_queue(A))
    def run_operation(job_id: str, op_generation: int) -> None:
        ran.append(("operation", job_id, op_generation))

    register_control_actors(agent, lambda job_id, generation: ran.append(("step", job_id, generation)))
    worker = start_worker(agent, {node_queue(A), CONTROL_QUEUE}, threads=2)
    try:
        wakeups = world.wakeups()
        wakeups.send_order(A, JOB, 1)
        wakeups.wake_control(OTHER, 2)
        eventually(lambda: len(ran) == 2)
        assert sorted(ran) == [("operation", JOB, 1), ("step", OTHER, 2)]
        health = worker.health()
        assert health.problem is None
        assert (health.threads_alive, health.consumers_alive) == (2, 2)
    finally:
        worker.stop(LIMIT_S)


def test_a_worker_uses_all_its_threads_and_holds_no_message_it_cannot_start(world: World) -> None:
    agent = world.process()
    entered, release = threading.Semaphore(0), threading.Event()

    def step(job_id: str, generation: int) -> None:
        entered.release()
        release.wait(LIMIT_S)

    register_control_actors(agent, step)
    worker = start_worker(agent, {CONTROL_QUEUE}, threads=2)
    try:
        wakeups = world.wakeups()
        for generation in range(3):
            wakeups.wake_control(JOB, generation)
        assert entered.acquire(timeout=LIMIT_S)
        assert entered.acquire(timeout=LIMIT_S)
        assert taken(world.process(), CONTROL_QUEUE, 1)
    finally:
        release.set()
        worker.stop(LIMIT_S)


def test_tq_05_an_actor_that_raises_is_not_run_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    agent = world.process()
    ran: list[int] = []

    def step(job_id: str, generation: int) -> None:
        ran.append(generation)
        if generation == 1:
            raise RuntimeError("on purpose")

    register_control_actors(agent, step)
    worker = start_worker(agent, {CONTROL_QUEUE}, threads=1)
    try:
        wakeups = world.wakeups()
        wakeups.wake_control(JOB, 1)
        wakeups.wake_control(JOB, 2)
        eventually(lambda: 2 in ran)
        eventually(lambda: worker.health().unfinished == 0)
        assert ran == [1, 2]
        assert is_empty(world.process(), CONTROL_QUEUE)
        assert "on purpose" in caplog.text
    finally:
        worker.stop(LIMIT_S)


def test_tq_05_a_message_for_an_unknown_actor_stops_nothing(world: World) -> None:
    agent = world.process()
    ran: list[int] = []
    register_control_actors(agent, lambda job_id, generation: ran.append(generation))
    worker = start_worker(agent, {CONTROL_QUEUE}, threads=1)
    try:
        sender = world.process()
        unknown: dramatiq.Message[None] = dramatiq.Message(
            queue_name=CONTROL_QUEUE, actor_name="of_another_version", args=(), kwargs={}, options={}
        )
        sender.enqueue(unknown)
        world.wakeups().wake_control(JOB, 5)
        eventually(lambda: ran == [5])
        assert worker.health().problem is None
    finally:
        worker.stop(LIMIT_S)
