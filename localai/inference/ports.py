"""What an API route asks of a model process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from protos import backend_pb2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One process instance on one node. A connection belongs to it and never to an address alone."""

    node_id: str
    address: str
    process_instance: str


class Call(Protocol):
    """One call under way; may be cancelled from another greenlet or thread."""

    def cancel(self) -> None: ...

    def result(self) -> backend_pb2.Reply:
        """The answer of a unary call. Raises the BackendError family or CallCancelled."""

    def __iter__(self) -> Iterator[backend_pb2.Reply]:
        """The chunks of a stream. Raises the BackendError family or CallCancelled."""

    def finish_reason(self) -> str:
        """Why the process ended its answer (`stop`, `length`, `tool_calls`), asked after it; empty when silent."""


class Inference(Protocol):
    """Calls to model processes. Every call has a deadline in seconds."""

    def predict(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, deadline_s: float) -> Call: ...

    def stream(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, deadline_s: float) -> Call: ...

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to a process instance; calls under way on it end with BackendUnavailable."""
