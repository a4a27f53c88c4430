"""How is a model process asked: the inference port on grpcio, with threads or greenlets alike.

Under gevent `grpc.experimental.gevent.init_gevent` must have run before the first call; `web/gunicorn_conf.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from localai.errors import BackendRejected, CallCancelled, FirstByteTimeout, IdleTimeout, LocalAIError
from localai.inference.channels import MESSAGE_LIMIT_BYTES, Channels, Connection
from localai.inference.errors import from_broken_call, from_status
from localai.inference.limits import LimitWatch
from localai.inference.ports import Call, Endpoint, Limits, UnaryCall
from localai.inference.process_secrets import metadata
from protos import backend_pb2

#: Trailing metadata of a call; the protocol's messages have no field for it.
FINISH_REASON_KEY = "finish-reason"

Said = TypeVar("Said")


class GrpcInference:
    """Calls to model processes over gRPC. The caller sets `ModelIdentity`."""

    def __init__(self, channels: Channels | None = None, watch: LimitWatch | None = None) -> None:
        self._channels, self._watch = channels or Channels(), watch or LimitWatch()

    def predict(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits) -> Call:
        """Start a unary call. Raises BackendUnavailable when the process cannot be reached, BackendRejected when the
        request is larger than a message may be."""
        to, shown = self._connection(endpoint, options, limits), metadata(endpoint.secret)
        return _Call(to, lambda: to.calls.Predict.future(options, metadata=shown), limits, self._watch)

    def stream(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits) -> Call:
        """Start a streamed call; raises as `predict`."""
        to, shown = self._connection(endpoint, options, limits), metadata(endpoint.secret)
        return _Call(to, lambda: to.calls.PredictStream(options, metadata=shown), limits, self._watch)

    def embed(
        self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits
    ) -> UnaryCall[backend_pb2.EmbeddingResult]:
        """Start a call for the vector of one text; raises as `predict`."""
        to, shown = self._connection(endpoint, options, limits), metadata(endpoint.secret)
        return _UnaryCall(to, lambda: to.calls.Embedding.future(options, metadata=shown), limits, self._watch)

    def rerank(
        self, endpoint: Endpoint, request: backend_pb2.RerankRequest, limits: Limits
    ) -> UnaryCall[backend_pb2.RerankResult]:
        """Start a call for the order of documents; raises as `predict`."""
        to, shown = self._connection(endpoint, request, limits), metadata(endpoint.secret)
        return _UnaryCall(to, lambda: to.calls.Rerank.future(request, metadata=shown), limits, self._watch)

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to a process instance; calls under way on it end with BackendCrashed."""
        self._channels.forget(endpoint)

    def probe(self, endpoint: Endpoint) -> bool:
        """Whether the instance can be dialled. Keeps the connection when it can."""
        try:
            self._channels.connection(endpoint)
        except LocalAIError:
            self._channels.forget(endpoint)
            return False
        return True

    def close(self) -> None:
        """Close every connection."""
        self._channels.close()
        self._watch.stop()

    def _connection(self, endpoint: Endpoint, request: Message, limits: Limits) -> Connection:
        size = request.ByteSize()
        if size > MESSAGE_LIMIT_BYTES:
            raise BackendRejected(f"the request is {size} bytes; a model process takes {MESSAGE_LIMIT_BYTES}")
        return self._channels.connection(endpoint, limits.connect_s)


class _UnaryCall(Generic[Said]):
    """One call under way. Whatever ends the wait for it, also the end of its greenlet, cancels it."""

    def __init__(self, to: Connection, start: Callable[[], Any], limits: Limits, watch: LimitWatch) -> None:
        self._to = to
        self._limits, self._watch, self._clock = limits, watch, watch.clock
        #: Since when the process is waited for; None while it is not.
        self._since: float | None = None
        self._answered = False
        self._why: LocalAIError | None = None
        self._failure: LocalAIError | None = None
        try:
            self._rpc = start()
        except ValueError:  # the channel was closed between the look at it and the call
            self._rpc = None
            self._failure = from_status(grpc.StatusCode.UNAVAILABLE, "the connection was closed")

    def cancel(self, why: LocalAIError | None = None) -> None:
        self._why = self._why or why or CallCancelled()
        if self._rpc is not None:
            self._rpc.cancel()

    def result(self) -> Said:
        if self._failure is not None:
            raise self._failure
        self._since = self._clock()
        self._watch.add(self)
        try:
            answer: Said = self._rpc.result()
            return answer
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            raise self._meaning(error) from None
        except BaseException:
            self.cancel()
            raise
        finally:
            self._since = None
            self._watch.remove(self)

    def overdue(self, now: float) -> LocalAIError | None:
        """Why the call is to be ended at this moment; None if it is within its limits."""
        since = self._since
        limit = self._limits.idle_s if self._answered else self._limits.first_byte_s
        if since is None or limit is None or now - since < limit:
            return None
        return _stopped(limit) if self._answered else _silent(limit)

    def _meaning(self, error: Exception) -> LocalAIError:
        if self._why is not None:
            return self._why
        if isinstance(error, grpc.Call):
            status, text = error.code() or grpc.StatusCode.UNKNOWN, error.details() or ""
            return from_broken_call(status, text, self._to.answers)
        return from_broken_call(grpc.StatusCode.CANCELLED, "the connection was closed", self._to.answers)


class _Call(_UnaryCall[backend_pb2.Reply]):
    """One call under way that answers with text."""

    def __iter__(self) -> Iterator[backend_pb2.Reply]:
        if self._failure is not None:
            raise self._failure
        clock, rpc = self._clock, self._rpc
        self._watch.add(self)
        try:
            self._since = clock()
            for reply in rpc:
                self._since, self._answered = None, True
                yield reply
                self._since = clock()
        except grpc.RpcError as error:
            raise self._meaning(error) from None
        finally:
            self._since = None
            self._watch.remove(self)
            # Without effect on a call that is over.
            rpc.cancel()

    def finish_reason(self) -> str:
        """Why the process ended its answer, where it says so; asked after the answer."""
        metadata = self._rpc.trailing_metadata() if self._rpc is not None else None
        return next((str(value) for key, value in metadata or () if key == FINISH_REASON_KEY), "")


def _silent(limit_s: float) -> FirstByteTimeout:
    return FirstByteTimeout(
        f"the model process gave no answer within {limit_s:g} s; LOCALAI_FIRST_BYTE_TIMEOUT, or timeouts.first_byte in "
        "the model's config, sets the limit"
    )


def _stopped(limit_s: float) -> IdleTimeout:
    return IdleTimeout(
        f"the model process stopped in the middle of its answer, and nothing more came within {limit_s:g} s; "
        "LOCALAI_IDLE_TIMEOUT, or timeouts.idle in the model's config, sets the limit"
    )
