"""Fixtures: each queue the contract is for, as several processes would hold it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import fakeredis
import pytest
from dramatiq.broker import MessageProxy

from tasks.broker import LocalBroker, ValkeyBroker, make_broker, make_client
from tasks.enqueue import DramatiqWakeups
from tests.loopback import ValkeyServer, eventually

Broker = ValkeyBroker | LocalBroker


@dataclass
class World:
    """One queue server; ``process`` makes the broker of one more process."""

    make: Callable[[], Broker]
    brokers: list[Broker] = field(default_factory=list)

    def process(self) -> Broker:
        self.brokers.append(self.make())
        return self.brokers[-1]

    def wakeups(self) -> DramatiqWakeups:
        return DramatiqWakeups(self.process())


def taken(broker: Broker, queue: str, count: int) -> list[tuple[str, tuple[Any, ...]]]:
    """Take and acknowledge so many messages: actor and arguments of each."""
    broker.declare_queue(queue)
    consumer = broker.consume(queue_name=queue, prefetch=count, timeout=10)
    messages: list[MessageProxy] = []

    def take() -> bool:
        message = next(consumer)
        if message is not None:
            messages.append(message)
            consumer.ack(message)
        return len(messages) >= count

    eventually(take, f"{count} messages on {queue}")
    return [(message.actor_name, tuple(message.args)) for message in messages]


def is_empty(broker: Broker, queue: str) -> bool:
    broker.declare_queue(queue)
    consumer = broker.consume(queue_name=queue, prefetch=1, timeout=10)
    return all(next(consumer) is None for _ in range(3))


@pytest.fixture(scope="session")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(params=["stub", "fakeredis", "valkey"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(_maker(request))
    try:
        yield world
    finally:
        for broker in world.brokers:
            broker.close()


def _maker(request: pytest.FixtureRequest) -> Callable[[], Broker]:
    if request.param == "stub":
        shared = make_broker("stub://")
        return lambda: shared
    if request.param == "fakeredis":
        server = fakeredis.FakeServer()
        return lambda: ValkeyBroker(fakeredis.FakeRedis(server=server))
    valkey: ValkeyServer = request.getfixturevalue("valkey_server")
    with make_client(valkey.url) as client:
        client.flushall()
    return lambda: make_broker(valkey.frontend_url)
