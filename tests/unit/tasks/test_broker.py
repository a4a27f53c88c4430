"""Which broker a URL gives, and that no command of it can wait for long."""

from __future__ import annotations

import pytest
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed, DecodeError
from redis import ConnectionError as RefusedError
from redis import TimeoutError as FrozenError

from localai.errors import BadSetting
from tasks.broker import POLL_MS, SOCKET_TIMEOUT_S, LocalBroker, ValkeyBroker, WatchedConsumer, make_broker
from tasks.middleware.logs import LogFields
from tasks.worker import IDLE_MS

pytestmark = pytest.mark.unit


def test_a_stub_url_gives_a_broker_inside_this_process() -> None:
    assert isinstance(make_broker("stub://"), LocalBroker)


@pytest.mark.parametrize("url", ["redis://:secret@127.0.0.1:1/0", "unix:///nowhere/socket?db=0", "rediss://h:1/0"])
def test_a_valkey_url_connects_only_when_used_and_bounds_every_command(url: str) -> None:
    broker = make_broker(url)
    assert isinstance(broker, ValkeyBroker)
    options = broker.client.connection_pool.connection_kwargs
    assert options["socket_timeout"] == options["socket_connect_timeout"] == SOCKET_TIMEOUT_S
    assert options["retry"].get_retries() == 1


def test_tq_02_tq_05_of_the_librarys_middleware_only_ours_is_in_force() -> None:
    for url in ("stub://", "redis://127.0.0.1:1/0"):
        assert [type(middleware) for middleware in make_broker(url).middleware] == [LogFields]


@pytest.mark.parametrize("url", ["amqp://user:secret@host", "host:6379", ""])
def test_another_url_is_refused_with_the_name_of_the_setting_and_without_its_secret(url: str) -> None:
    with pytest.raises(BadSetting) as refused:
        make_broker(url)
    assert "LOCALAI_BROKER_URL" in refused.value.message
    assert "secret" not in refused.value.message


class Scripted(Consumer):
    """A consumer that answers with one error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __next__(self) -> MessageProxy | None:
        raise self.error

    def ack(self, message: MessageProxy) -> None:
        raise self.error

    nack = ack

    def requeue(self, messages: object) -> None:
        raise self.error


@pytest.mark.parametrize("error", [FrozenError("Timeout reading from socket"), RefusedError("refused")])
def test_tq_03_every_failure_of_the_broker_is_a_closed_connection_to_the_library(error: Exception) -> None:
    polls: dict[str, float] = {}
    consumer = WatchedConsumer(Scripted(error), "q", polls)
    with pytest.raises(ConnectionClosed):
        next(consumer)
    with pytest.raises(ConnectionClosed):
        consumer.requeue([])
    for end in (consumer.ack, consumer.nack):
        with pytest.raises(ConnectionClosed):
            end(None)  # type: ignore[arg-type]
    assert polls == {}


def test_tq_03_a_message_that_cannot_be_read_counts_as_a_poll_and_ends_nothing() -> None:
    polls: dict[str, float] = {}
    consumer = WatchedConsumer(Scripted(DecodeError("bad", b"", ValueError())), "q", polls)  # type: ignore[no-untyped-call]
    assert next(consumer) is None
    assert list(polls) == ["q"]


def test_a_queue_nobody_declared_takes_messages_and_can_be_forgotten() -> None:
    broker = make_broker("stub://")
    broker.forget_queue("node.unknown")
    assert broker.get_declared_queues() == set()


def test_a_queue_of_delayed_messages_is_looked_at_less_often_than_one_of_wake_ups() -> None:
    """An idle process spent half of its looks on delayed messages, of which there are none."""
    broker = make_broker("redis://127.0.0.1:1/0")
    waits = {name: broker.consume(name, timeout=IDLE_MS)._inner.timeout for name in ("orders", dq_name("orders"))}
    assert waits == {"orders": POLL_MS, "orders.DQ": IDLE_MS}
