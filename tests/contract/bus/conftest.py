"""Fixtures: each bus the contract is for, as two processes would hold it, with the switch that plays an outage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from localai.bus.memory import MemoryBus
from localai.bus.nats import NatsBus, ThreadDelivery
from tests.loopback import NatsServer, eventually


@dataclass
class World:
    """A frontend and a node on one bus."""

    frontend: MemoryBus | NatsBus
    node: MemoryBus | NatsBus
    cut: Callable[[], None]
    mend: Callable[[], None]

    def settle(self) -> None:
        """Return when everything subscribed and served so far is known to the bus."""
        for bus in {id(self.frontend): self.frontend, id(self.node): self.node}.values():
            settled: list[bool] = []
            bus.on_resync(lambda settled=settled: settled.append(True))
            eventually(lambda settled=settled: settled, "a resync after subscribing")


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(params=["memory", "memory-with-thread", "nats"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "nats":
        yield from _nats_world(request.getfixturevalue("nats_server"))
        return
    bus = MemoryBus(delivery=ThreadDelivery() if request.param == "memory-with-thread" else None)
    try:
        yield World(bus, bus, bus.disconnect, bus.reconnect)
    finally:
        bus.close()


def _nats_world(server: NatsServer) -> Iterator[World]:
    frontend = NatsBus(server.url, name="frontend", delivery=ThreadDelivery())
    node = NatsBus(server.url, name="node", delivery=ThreadDelivery())

    def cut() -> None:
        server.kill()
        eventually(lambda: not frontend.connected() and not node.connected(), "the loss of the connection")

    try:
        eventually(lambda: frontend.connected() and node.connected(), "a connection")
        yield World(frontend, node, cut, server.start)
    finally:
        frontend.close()
        node.close()
        if not server.listens():
            server.start()
