"""What an API route asks of a model process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from localai.errors import LocalAIError

if TYPE_CHECKING:
    from protos import backend_pb2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One process instance on one node. A connection belongs to it and never to an address alone."""

    node_id: str
    address: str
    process_instance: str
    #: Secret that each call to the process sends; None if the process has none.
    secret: str | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long one call may take, in seconds; None is no limit. A stream has no limit as long as it goes on."""

    #: Until the process accepts a connection.
    connect_s: float | None = 5.0
    #: Until the first reply of a stream, or the answer of a call that answers whole.
    first_byte_s: float | None = 1800.0
    #: From one reply of a stream to the next, without the time in which the client does not read.
    idle_s: float | None = 900.0


Said_co = TypeVar("Said_co", covariant=True)


class UnaryCall(Protocol[Said_co]):
    """One call under way that has one answer; may be cancelled from another greenlet or thread."""

    def cancel(self, why: LocalAIError | None = None) -> None:
        """End the call; `result` and the chunks then raise `why`, without it CallCancelled. The first reason counts."""

    def result(self) -> Said_co:
        """The answer. Raises the BackendError family or CallCancelled."""


class Call(UnaryCall["backend_pb2.Reply"], Protocol):
    """One call under way that answers with text, whole or in chunks."""

    def __iter__(self) -> Iterator[backend_pb2.Reply]:
        """The chunks of a stream. Raises the BackendError family or CallCancelled."""

    def finish_reason(self) -> str:
        """Why the process ended its answer (`stop`, `length`, `tool_calls`), asked after it; empty when silent."""


class Inference(Protocol):
    """Calls to model processes. A call over one of its limits is cancelled at the process and raises ConnectTimeout,
    FirstByteTimeout or IdleTimeout."""

    def predict(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits) -> Call: ...

    def stream(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits) -> Call: ...

    def embed(
        self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits
    ) -> UnaryCall[backend_pb2.EmbeddingResult]: ...

    def rerank(
        self, endpoint: Endpoint, request: backend_pb2.RerankRequest, limits: Limits
    ) -> UnaryCall[backend_pb2.RerankResult]: ...

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to a process instance; calls under way on it end with BackendCrashed."""
