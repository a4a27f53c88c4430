"""What the project asks of a message bus: hints to everybody, and one question to one node.

Both are fast paths. Nothing durable travels on them: whoever needs to be right reads rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Payload = Mapping[str, Any]
Handler = Callable[[str, Payload], None]
Responder = Callable[[Payload], Payload]


class Events(Protocol):
    """Hints from any process to all that listen. At most once, unordered, never waited for."""

    def publish(self, subject: str, payload: Payload) -> None:
        """Send and forget. Never blocks and never raises because of the bus."""

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        """Call ``handler(subject, payload)`` for each event; ``*`` matches one token, ``>`` the rest.

        Returns what ends the subscription. Handlers run one at a time on the delivery of this process (a thread, or a
        greenlet in a web process) and must be short.
        """

    def on_resync(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` after each (re)connect: events may have been lost, rows must be read again.

        Also once when asked for while connected, after every earlier subscription of this process is in force. A
        process that is behind and had to drop events is told in the same way.
        """

    def connected(self) -> bool:
        """Whether events flow at this moment."""

    def close(self) -> None:
        """End the connection and its thread."""


class NodeLink(Protocol):
    """One question to one node."""

    def request(self, node_id: str, operation: str, payload: Payload, timeout_s: float) -> Payload:
        """The node's answer.

        Raises NoRoute (nobody listens for this node), NodeQuiet (no answer within ``timeout_s``), NodeUnreachable (the
        bus itself gave no answer), WorkerRefused (the node answered with an error). The four are never merged.
        """


class NodeServer(Protocol):
    """The agent's end of the node link."""

    def serve(self, node_id: str, operation: str, responder: Responder) -> None:
        """Answer requests for ``operation`` of this node. A responder that raises LocalAIError refuses with its text.

        Responders run on threads of their own: a slow one delays nobody else.
        """
