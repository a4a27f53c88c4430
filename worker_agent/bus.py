"""The agent's end of the bus, where there is one: it answers stop requests and tells whether it is connected."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from localai.bus.nats import NatsBus, ThreadDelivery
from localai.bus.ports import Responder
from localai.bus.subjects import MODEL_STOP

#: How long the end of the agent waits for the connection to close.
CLOSE_BOUND_S = 0.5


class AgentBus(Protocol):
    """What the agent needs of a bus."""

    def connected(self) -> bool: ...

    def serve(self, node_id: str, operation: str, responder: Responder) -> None: ...

    def close(self) -> None: ...


class NoBus:
    """No bus: renewals, cancels and stops come as answers to reports, one report later."""

    def connected(self) -> bool:
        return True

    def serve(self, node_id: str, operation: str, responder: Responder) -> None:
        pass

    def close(self) -> None:
        pass


def connect(url: str, name: str, ca_file: Path | None = None) -> AgentBus:
    """The bus of a URL; an empty one means none."""
    return NatsBus(url, name=name, delivery=ThreadDelivery(), ca_file=ca_file) if url else NoBus()


def serve_stops(bus: AgentBus, node_id: str, responder: Responder) -> None:
    """Answer the exact stops of this node."""
    bus.serve(node_id, MODEL_STOP, responder)


def close(bus: AgentBus) -> None:
    """Close the connection, without waiting for a network that does not answer."""
    closer = threading.Thread(target=bus.close, name="bus-close", daemon=True)
    closer.start()
    closer.join(CLOSE_BOUND_S)
