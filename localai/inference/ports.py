"""What an API route asks of a model process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from protos import backend_pb2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One process instance on one node. A connection belongs to it and never to an address alone."""

    node_id: str
    address: str
    process_instance: str


Said_co = TypeVar("Said_co", covariant=True)


class UnaryCall(Protocol[Said_co]):
    """One call under way that has one answer; may be cancelled from another greenlet or thread."""

    def cancel(self) -> None: ...

    def result(self) -> Said_co:
        """The answer. Raises the BackendError family or CallCancelled."""


class Call(UnaryCall["backend_pb2.Reply"], Protocol):
    """One call under way that answers with text, whole or in chunks."""

    def __iter__(self) -> Iterator[backend_pb2.Reply]:
        """The chunks of a stream. Raises the BackendError family or CallCancelled."""

    def finish_reason(self) -> str:
        """Why the process ended its answer (`stop`, `length`, `tool_calls`), asked after it; empty when silent."""


class Inference(Protocol):
    """Calls to model processes. Every call has a deadline in seconds."""

    def predict(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, deadline_s: float) -> Call: ...

    def stream(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, deadline_s: float) -> Call: ...

    def embed(
        self, endpoint: Endpoint, options: backend_pb2.PredictOptions, deadline_s: float
    ) -> UnaryCall[backend_pb2.EmbeddingResult]: ...

    def rerank(
        self, endpoint: Endpoint, request: backend_pb2.RerankRequest, deadline_s: float
    ) -> UnaryCall[backend_pb2.RerankResult]: ...

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to a process instance; calls under way on it end with BackendUnavailable."""
