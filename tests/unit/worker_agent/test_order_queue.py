"""How orders leave the queue, and what happens when its consumer does not move."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from dramatiq.broker import Consumer
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message

from tasks import names
from tasks.broker import LocalBroker
from tasks.queues import node_queue
from tasks.worker import RunningWorker
from tests.loopback import eventually
from worker_agent.actors import THREADS, OrderQueue

pytestmark = pytest.mark.unit


class Rig:
    """A queue on brokers inside this process; a new one each time it is built."""

    def __init__(self) -> None:
        self.brokers: list[LocalBroker] = []
        self.taken: list[tuple[str, int]] = []
        self.arrived = threading.Event()
        self.queue = OrderQueue(node_id="n1", broker_url="stub://", run=self._run, brokers=self._broker)

    def _broker(self, url: str) -> LocalBroker:
        self.brokers.append(LocalBroker())
        return self.brokers[-1]

    def _run(self, job_id: str, op_generation: int) -> None:
        self.taken.append((job_id, op_generation))
        self.arrived.set()

    def send(self, job_id: str) -> None:
        message: Message[None] = Message(
            queue_name=node_queue("n1"), actor_name=names.RUN_OPERATION, args=(job_id, 1), kwargs={}, options={}
        )
        self.brokers[-1].enqueue(message)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    made.queue.start()
    try:
        yield made
    finally:
        made.queue.close()


def test_a_message_is_handed_over_as_it_is(rig: Rig) -> None:
    rig.send("job")
    assert rig.arrived.wait(30)
    assert rig.taken == [("job", 1)]


def test_tq_03_a_consumer_that_does_not_move_is_built_anew(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.queue.check()
    assert len(rig.brokers) == 1
    health = RunningWorker.health
    monkeypatch.setattr(RunningWorker, "health", lambda self: replace(health(self), last_poll_age_s=100.0))
    assert "does not answer" in (rig.queue.problem() or "")
    rig.queue.check()
    monkeypatch.undo()
    eventually(lambda: rig.queue.problem() is None, "a queue that is read")
    rig.send("after")
    assert rig.arrived.wait(30)
    assert len(rig.brokers) == 2


def test_a_consumer_that_could_not_be_built_anew_is_built_by_a_later_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the limit of threads of a container: model processes take them all for a while."""
    made: list[LocalBroker] = []
    none_left = [False]

    def broker(url: str) -> LocalBroker:
        if none_left[0]:
            raise RuntimeError("can't start new thread")
        made.append(LocalBroker())
        return made[-1]

    queue = OrderQueue(node_id="n1", broker_url="stub://", run=lambda *_: None, brokers=broker)
    queue.check()
    assert made == [], "nothing is built before the start"
    queue.start()
    try:
        health = RunningWorker.health
        monkeypatch.setattr(RunningWorker, "health", lambda self: replace(health(self), last_poll_age_s=100.0))
        none_left[0] = True
        with pytest.raises(RuntimeError):
            queue.check()
        monkeypatch.undo()
        none_left[0] = False
        queue.check()
        eventually(lambda: queue.problem() is None, "a queue that is read")
        assert len(made) == 2
    finally:
        queue.close()


def test_a_queue_that_is_not_reached_makes_the_agent_unready_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuilt consumer must not hide that the one before read nothing either."""
    now = [0.0]
    monkeypatch.setattr("tasks.worker.boottime", lambda: now[0])
    monkeypatch.setattr("tasks.broker.boottime", lambda: now[0])
    brokers: list[LocalBroker] = []
    away = threading.Event()

    class Unreached(LocalBroker):
        def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 100) -> Consumer:
            if away.is_set():
                raise ConnectionClosed(None)
            return super().consume(queue_name, prefetch, timeout)

    def broker(url: str) -> LocalBroker:
        brokers.append(Unreached())
        return brokers[-1]

    away.set()
    queue = OrderQueue(node_id="n1", broker_url="stub://", run=lambda *_: None, brokers=broker, clock=lambda: now[0])
    queue.start()
    try:
        for _ in range(60):
            assert "never read" in (queue.problem() or "") or "does not answer" in (queue.problem() or "")
            now[0] += 1.0
            queue.check()
        assert len(brokers) >= 3, "rebuilt"
        away.clear()
        now[0] += 30.0
        queue.check()
        eventually(lambda: queue.problem() is None, "a queue that is read")
    finally:
        queue.close()


def test_tq_02_a_worker_thread_that_ended_makes_the_agent_unready(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    health = RunningWorker.health
    monkeypatch.setattr(RunningWorker, "health", lambda self: replace(health(self), threads_alive=THREADS - 1))
    assert "threads have ended" in (rig.queue.problem() or "")


def test_a_closed_queue_takes_nothing_and_is_not_built_again(rig: Rig) -> None:
    rig.queue.close()
    rig.queue.check()
    assert len(rig.brokers) == 1
    assert rig.queue.problem() is not None
