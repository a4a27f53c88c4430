"""Wake-ups: where they go, what they carry, and that a broken broker is not their caller's trouble."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message
from redis import ConnectionError as RefusedError
from redis import ResponseError
from redis import TimeoutError as FrozenError

from localai.ids import JobId, NodeId
from tasks import names, queues
from tasks.broker import LocalBroker
from tasks.enqueue import PAUSE_S, DramatiqWakeups

pytestmark = pytest.mark.unit

JOB, NODE = JobId("job-1"), NodeId("node-1")


class BrokenBroker(LocalBroker):
    """A broker that fails as long as it has an error."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.tried = 0

    def enqueue(self, message: Message, *, delay: int | None = None) -> Message:  # type: ignore[type-arg]
        self.tried += 1
        if self.error is not None:
            raise self.error
        return super().enqueue(message, delay=delay)

    def forget_queue(self, queue_name: str) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [1000.0]
    monkeypatch.setattr("tasks.enqueue.boottime", lambda: now[0])
    return now


def messages(broker: LocalBroker, queue: str) -> list[Message]:  # type: ignore[type-arg]
    waiting = broker.queues[queue]
    return [Message.decode(waiting.get_nowait()) for _ in range(waiting.qsize())]


def test_a_message_names_the_queue_the_actor_the_job_and_its_generation_and_nothing_else() -> None:
    broker = LocalBroker()
    wakeups = DramatiqWakeups(broker)
    wakeups.wake_control(JOB, 4)
    wakeups.send_order(NODE, JOB, 5)
    control, node = messages(broker, "control"), messages(broker, "node.node-1")
    assert [(m.actor_name, m.args, m.kwargs, m.options) for m in control] == [(names.STEP_JOB, (JOB, 4), {}, {})]
    assert [(m.actor_name, m.args, m.kwargs, m.options) for m in node] == [(names.RUN_OPERATION, (JOB, 5), {}, {})]


@pytest.mark.parametrize("node_id", ["", "a b", "a.DQ", "a/b", "n\n"])
def test_a_node_id_that_cannot_be_part_of_a_queue_name_is_a_fault_of_the_caller(node_id: str) -> None:
    with pytest.raises(ValueError, match="cannot name a queue"):
        queues.node_queue(node_id)


@pytest.mark.parametrize(
    "error", [FrozenError("frozen"), RefusedError("refused"), ResponseError("OOM"), ConnectionClosed("x"), OSError(111)]
)
def test_no_failure_of_the_broker_reaches_the_caller(error: Exception) -> None:
    broker = BrokenBroker()
    broker.error = error
    wakeups = DramatiqWakeups(broker)
    wakeups.wake_control(JOB, 1)
    wakeups.send_order(NODE, JOB, 1)
    wakeups.forget_node(NODE)
    assert (wakeups.sent, wakeups.lost) == (0, 2)


def test_after_a_failure_the_broker_is_left_alone_for_a_moment_and_then_tried_again(now: list[float]) -> None:
    broker = BrokenBroker()
    broker.error = FrozenError("frozen")
    wakeups = DramatiqWakeups(broker)
    for _ in range(100):
        wakeups.wake_control(JOB, 1)
    assert (broker.tried, wakeups.lost) == (1, 100)
    broker.error = None
    now[0] += PAUSE_S
    wakeups.wake_control(JOB, 1)
    assert (broker.tried, wakeups.sent) == (2, 1)


def test_an_outage_is_logged_at_its_begin_and_its_end(now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="tasks.enqueue")
    broker = BrokenBroker()
    wakeups = DramatiqWakeups(broker)
    for error in (RefusedError("refused"), RefusedError("refused"), None, None):
        broker.error = error
        wakeups.wake_control(JOB, 1)
        now[0] += PAUSE_S
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
