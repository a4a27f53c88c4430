"""What a broker that is away, frozen or wiped may do to a process: cost a wake-up, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import dramatiq
import pytest

from localai.clock import boottime
from localai.ids import JobId, NodeId
from tasks import names
from tasks.actors import register_control_actors
from tasks.broker import SOCKET_TIMEOUT_S, ValkeyBroker, make_broker
from tasks.enqueue import PAUSE_S, DramatiqWakeups
from tasks.queues import CONTROL_QUEUE, node_queue
from tasks.worker import STUCK_AFTER_S, start_worker
from tests.loopback import LIMIT_S, ValkeyServer, eventually

pytestmark = pytest.mark.integration

JOB, NODE = JobId("33333333-cccc-4ccc-8ccc-333333333333"), NodeId("node-1")
#: The machine may be busy: bounds of the code, with room.
SLACK_S = 3.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def broker(server: ValkeyServer) -> Iterator[ValkeyBroker]:
    broker = make_broker(server.url)
    assert isinstance(broker, ValkeyBroker)
    try:
        yield broker
    finally:
        broker.close()


def test_a_frozen_broker_holds_up_a_sender_for_its_socket_timeout_and_the_next_hundred_not_at_all(
    server: ValkeyServer, broker: ValkeyBroker, caplog: pytest.LogCaptureFixture
) -> None:
    wakeups = DramatiqWakeups(broker)
    wakeups.wake_control(JOB, 1)
    server.freeze()
    try:
        started = boottime()
        wakeups.wake_control(JOB, 2)
        assert SOCKET_TIMEOUT_S * 0.9 < boottime() - started < SOCKET_TIMEOUT_S + SLACK_S
        started = boottime()
        for generation in range(100):
            wakeups.send_order(NODE, JOB, generation)
        assert boottime() - started < PAUSE_S
        assert (wakeups.sent, wakeups.lost) == (1, 101)
    finally:
        server.thaw()
    eventually(lambda: (wakeups.wake_control(JOB, 3), wakeups.sent == 2)[1], "a message after the thaw")
    assert [record.levelname for record in caplog.records if "the queue takes no messages" in record.message] == [
        "WARNING"
    ]


def test_a_new_connection_to_a_frozen_broker_is_bounded_too(server: ValkeyServer) -> None:
    server.freeze()
    fresh = make_broker(server.url)
    try:
        started = boottime()
        DramatiqWakeups(fresh).wake_control(JOB, 1)
        assert boottime() - started < 2 * SOCKET_TIMEOUT_S + SLACK_S
    finally:
        server.thaw()
        fresh.close()


def test_a_broker_that_is_not_there_raises_nothing_and_is_logged_once_an_outage(
    server: ValkeyServer, broker: ValkeyBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    wakeups = DramatiqWakeups(broker)
    for outage in (1, 2):
        server.kill()
        failed = wakeups.lost + 2
        eventually(lambda failed=failed: (wakeups.wake_control(JOB, 1), wakeups.lost >= failed)[1], "lost messages")
        wakeups.forget_node(NODE)
        server.start()
        sent = wakeups.sent
        eventually(lambda sent=sent: (wakeups.wake_control(JOB, 1), wakeups.sent > sent)[1], "a message that left")
        lines = [record.message for record in caplog.records]
        assert sum("the queue takes no messages" in line for line in lines) == outage
        assert sum("the queue takes messages again" in line for line in lines) == outage


def test_a_connection_the_broker_closed_while_it_was_idle_costs_no_message(
    server: ValkeyServer, broker: ValkeyBroker
) -> None:
    wakeups = DramatiqWakeups(broker)
    wakeups.wake_control(JOB, 1)
    server.kill()
    server.start()
    wakeups.wake_control(JOB, 2)
    assert (wakeups.sent, wakeups.lost) == (2, 0)


def test_tq_03_consumers_move_again_after_each_break_of_the_broker_and_show_it_meanwhile(
    server: ValkeyServer, broker: ValkeyBroker
) -> None:
    ran: list[int] = []
    register_control_actors(broker, lambda job_id, generation: ran.append(generation))
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=2)
    sender = make_broker(server.url)
    try:
        for generation in range(3):
            server.kill()
            eventually(lambda: worker.health().last_poll_age_s > 1, "a poll age that grows")
            server.start()
            eventually(lambda: worker.health().last_poll_age_s < 1, "consumers that move again")
            wakeups = DramatiqWakeups(sender)
            eventually(lambda w=wakeups: (w.wake_control(JOB, generation), w.sent > 0)[1], "a message that left")  # noqa: B023
            eventually(lambda: generation in ran, "the message")  # noqa: B023
            assert worker.health().problem is None
    finally:
        worker.stop(5)
        sender.close()


def test_tq_03_the_queue_keeps_moving_while_its_connections_are_broken_ten_times(
    server: ValkeyServer, broker: ValkeyBroker
) -> None:
    ran: list[int] = []
    register_control_actors(broker, lambda job_id, generation: ran.append(generation))
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=2)
    sender, breaker = make_broker(server.url), make_broker(server.url)
    assert isinstance(breaker, ValkeyBroker)
    try:
        wakeups = DramatiqWakeups(sender)
        for generation in range(10):
            broken = breaker.client.client_kill_filter(_type="normal", skipme=True)
            assert broken >= 1, "somebody was connected"
            eventually(lambda: (wakeups.wake_control(JOB, generation), generation in ran)[1], "the message")  # noqa: B023
        assert worker.health().consumers_alive == 1
        assert worker.health().problem is None
    finally:
        worker.stop(5)
        sender.close()
        breaker.close()


def test_tq_03_a_frozen_broker_ends_no_consumer(server: ValkeyServer, broker: ValkeyBroker) -> None:
    ran: list[int] = []
    register_control_actors(broker, lambda job_id, generation: ran.append(generation))
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=1)
    try:
        eventually(lambda: CONTROL_QUEUE in broker.polls, "a first poll")
        server.freeze()
        eventually(lambda: worker.health().last_poll_age_s > SOCKET_TIMEOUT_S + 1, "a poll age that grows")
        assert worker.health().consumers_alive == 1
        server.thaw()
        eventually(lambda: worker.health().last_poll_age_s < 1, "consumers that move again")
        sender = make_broker(server.url)
        DramatiqWakeups(sender).wake_control(JOB, 9)
        sender.close()
        eventually(lambda: ran == [9])
    finally:
        server.thaw()
        worker.stop(5)


def test_tq_03_a_broker_that_stays_away_is_a_problem_that_names_itself(
    server: ValkeyServer, broker: ValkeyBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_control_actors(broker, lambda job_id, generation: None)
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=1)
    try:
        eventually(lambda: worker.health().problem is None and CONTROL_QUEUE in broker.polls)
        server.kill()
        monkeypatch.setattr("tasks.worker.STUCK_AFTER_S", STUCK_AFTER_S / 20)
        eventually(lambda: "does not answer" in (worker.health().problem or ""), "the problem")
    finally:
        worker.stop(5)


def test_a_message_that_cannot_be_read_is_skipped_and_the_ones_fetched_with_it_run(
    server: ValkeyServer, broker: ValkeyBroker
) -> None:
    ran: list[int] = []
    sender = make_broker(server.url)
    assert isinstance(sender, ValkeyBroker)
    wakeups = DramatiqWakeups(sender)
    wakeups.wake_control(JOB, 1)
    queue = f"dramatiq:{CONTROL_QUEUE}"
    sender.client.hset(f"{queue}.msgs", "garbled", b"\x00 not a message")
    sender.client.rpush(queue, "garbled")
    wakeups.wake_control(JOB, 2)
    register_control_actors(broker, lambda job_id, generation: ran.append(generation))
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=4)
    try:
        eventually(lambda: sorted(ran) == [1, 2])
        assert worker.health().problem is None
    finally:
        worker.stop(5)
        sender.close()


def test_a_stopped_worker_gives_back_what_it_fetched_and_did_not_start(
    server: ValkeyServer, broker: ValkeyBroker
) -> None:
    entered, release = threading.Event(), threading.Event()

    @dramatiq.actor(broker=broker, actor_name=names.RUN_OPERATION, queue_name=node_queue(NODE))
    def run_operation(job_id: str, op_generation: int) -> None:
        entered.set()
        release.wait(LIMIT_S)

    worker = start_worker(broker, {node_queue(NODE)}, threads=1)
    sender = make_broker(server.url)
    assert isinstance(sender, ValkeyBroker)
    try:
        wakeups = DramatiqWakeups(sender)
        wakeups.send_order(NODE, JOB, 1)
        assert entered.wait(LIMIT_S)
        wakeups.send_order(NODE, JOB, 2)
        stopping = threading.Thread(target=worker.stop, args=(LIMIT_S,))
        stopping.start()
        release.set()
        stopping.join(LIMIT_S)
        assert not stopping.is_alive()
        assert sender.client.llen(f"dramatiq:{node_queue(NODE)}") == 1
    finally:
        release.set()
        sender.close()


def test_a_broker_wiped_under_a_running_message_leaves_the_worker_whole(
    server: ValkeyServer, broker: ValkeyBroker
) -> None:
    entered, release = threading.Event(), threading.Event()
    ran: list[int] = []

    def step(job_id: str, generation: int) -> None:
        entered.set()
        release.wait(LIMIT_S)
        ran.append(generation)

    register_control_actors(broker, step)
    worker = start_worker(broker, {CONTROL_QUEUE}, threads=1)
    sender = make_broker(server.url)
    assert isinstance(sender, ValkeyBroker)
    try:
        wakeups = DramatiqWakeups(sender)
        wakeups.wake_control(JOB, 1)
        assert entered.wait(LIMIT_S)
        sender.client.flushall()
        release.set()
        wakeups.wake_control(JOB, 2)
        eventually(lambda: ran == [1, 2])
    finally:
        release.set()
        worker.stop(5)
        sender.close()
