"""Model processes that answer by a script, in this process: the fake of the inference port."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from localai.errors import (
    BackendCrashed,
    BackendRejected,
    BackendUnavailable,
    CallCancelled,
    FirstByteTimeout,
    IdleTimeout,
    LocalAIError,
)
from localai.inference.channels import MESSAGE_LIMIT_BYTES
from localai.inference.errors import from_status
from localai.inference.ports import Call, Endpoint, Limits, UnaryCall
from protos import backend_pb2


class Abort(Exception):
    """The script ends the call with a status."""

    def __init__(self, status: grpc.StatusCode, text: str = "") -> None:
        self.status, self.text = status, text
        super().__init__(text)


@dataclass
class Asked:
    """One call as a script sees it."""

    #: PredictOptions, or the RerankRequest of a call for an order.
    options: Any
    #: Set when the call ended for any reason, a cancel included.
    over: threading.Event = field(default_factory=threading.Event)
    finish_reason: str = ""


#: Replies; of a call for a vector or an order, its one result.
Script = Callable[[Asked], Iterable[Any]]
#: What becomes of a script's answers: all of them, or one that stands for all.
Gather = Callable[[Iterable[Any]], Iterable[Any]]


def says(*texts: str, prompt_tokens: int = 3) -> Script:
    """A script that answers with these pieces, one token each."""

    def script(asked: Asked) -> Iterator[backend_pb2.Reply]:
        for number, text in enumerate(texts, 1):
            yield backend_pb2.Reply(message=text.encode(), tokens=number, prompt_tokens=prompt_tokens)

    return script


def embeds(vector: Callable[[Asked], Iterable[float]], *, tokens: int = 3) -> Script:
    """A script that answers with the vector of what it is asked."""

    def script(asked: Asked) -> Iterator[backend_pb2.EmbeddingResult]:
        yield backend_pb2.EmbeddingResult(embeddings=vector(asked), tokens=tokens, prompt_tokens=tokens)

    return script


def ranks(*scores: float, tokens: int = 3) -> Script:
    """A script that gives the documents of a request these scores, in the request's order."""

    def script(asked: Asked) -> Iterator[backend_pb2.RerankResult]:
        found = [
            backend_pb2.DocumentResult(index=index, text=text, relevance_score=score)
            for index, (text, score) in enumerate(zip(asked.options.documents, scores, strict=True))
        ]
        yield backend_pb2.RerankResult(
            usage=backend_pb2.Usage(total_tokens=tokens, prompt_tokens=tokens), results=found
        )

    return script


def fails(status: grpc.StatusCode, text: str = "", *, after: tuple[str, ...] = ()) -> Script:
    """A script that ends with a status, after these pieces."""

    def script(asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield from says(*after)(asked)
        raise Abort(status, text)

    return script


class Silent:
    """A script that says nothing until it is let go; `started` and `cancelled` tell a test where it is."""

    def __init__(self, *first: str) -> None:
        self._first = first
        self.started, self.go, self.cancelled = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield from says(*self._first)(asked)
        self.started.set()
        while not self.go.wait(0.01):
            if asked.over.is_set():
                self.cancelled.set()
                return
        yield from says("late")(asked)


def joined(replies: Iterable[backend_pb2.Reply]) -> backend_pb2.Reply:
    """The unary answer of a script."""
    whole = backend_pb2.Reply()
    for reply in replies:
        whole.MergeFrom(backend_pb2.Reply(chat_deltas=reply.chat_deltas))
        whole.message += reply.message
        whole.tokens = reply.tokens or whole.tokens
        whole.prompt_tokens = reply.prompt_tokens or whole.prompt_tokens
        whole.logprobs = reply.logprobs or whole.logprobs
    return whole


def only(results: Iterable[Any]) -> Any:
    """The one result of a script that answers with a vector or an order; None of one that was cancelled."""
    return next(iter(results), None)


class FakeInference:
    """The inference port over scripts. An endpoint without a script is a process that has ended."""

    def __init__(self) -> None:
        self.scripts: dict[Endpoint, Script] = {}
        self.asked: list[tuple[Endpoint, Any]] = []
        self.forgotten: list[Endpoint] = []
        self._lost: set[Endpoint] = set()
        self._calls: list[_FakeCall] = []

    def predict(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits) -> Call:
        return self._start(endpoint, options, limits, lambda replies: [joined(replies)])

    def stream(self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits) -> Call:
        return self._start(endpoint, options, limits, lambda replies: replies)

    def embed(
        self, endpoint: Endpoint, options: backend_pb2.PredictOptions, limits: Limits
    ) -> UnaryCall[backend_pb2.EmbeddingResult]:
        return self._start(endpoint, options, limits, lambda results: [only(results)])

    def rerank(
        self, endpoint: Endpoint, request: backend_pb2.RerankRequest, limits: Limits
    ) -> UnaryCall[backend_pb2.RerankResult]:
        return self._start(endpoint, request, limits, lambda results: [only(results)])

    def forget(self, endpoint: Endpoint) -> None:
        self.forgotten.append(endpoint)
        self._lost.discard(endpoint)
        for call in self._calls:
            if call.endpoint == endpoint:
                call.break_off()

    def probe(self, endpoint: Endpoint) -> bool:
        return endpoint in self.scripts

    def close(self) -> None:
        for call in self._calls:
            call.break_off()

    def end_process(self, endpoint: Endpoint) -> None:
        """The process ends: its calls break, and its connection never comes back by itself."""
        self.scripts.pop(endpoint, None)
        self._lost.add(endpoint)
        for call in self._calls:
            if call.endpoint == endpoint:
                call.break_off()

    def _start(self, endpoint: Endpoint, options: Any, limits: Limits, gather: Gather) -> _FakeCall:
        if options.ByteSize() > MESSAGE_LIMIT_BYTES:
            raise BackendRejected
        if endpoint in self._lost or endpoint not in self.scripts:
            self._lost.add(endpoint)
            raise BackendUnavailable(endpoint=endpoint)
        self.asked.append((endpoint, options))
        call = _FakeCall(endpoint, self.scripts[endpoint], Asked(options), limits, gather)
        self._calls.append(call)
        call.start()  # a script may end its own process
        return call


class _FakeCall:
    def __init__(self, endpoint: Endpoint, script: Script, asked: Asked, limits: Limits, gather: Gather) -> None:
        self.endpoint, self._asked, self._limits = endpoint, asked, limits
        self._answered = False
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(script, gather), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self, script: Script, gather: Gather) -> None:
        try:
            for reply in gather(script(self._asked)):
                self._items.put(reply)
            self._items.put(None)
        except Abort as abort:
            self._items.put(from_status(abort.status, abort.text))

    def cancel(self, why: LocalAIError | None = None) -> None:
        self._asked.over.set()
        self._items.put(why or CallCancelled())

    def break_off(self) -> None:
        self._asked.over.set()
        self._items.put(BackendCrashed())

    def finish_reason(self) -> str:
        return self._asked.finish_reason

    def result(self) -> Any:
        return next(iter(self))

    def __iter__(self) -> Iterator[Any]:
        try:
            while (item := self._next()) is not None:
                if isinstance(item, LocalAIError):
                    raise item
                self._answered = True
                yield item
        finally:
            self._asked.over.set()

    def _next(self) -> Any:
        try:
            return self._items.get(timeout=self._limits.idle_s if self._answered else self._limits.first_byte_s)
        except queue.Empty:
            self._asked.over.set()
            return IdleTimeout() if self._answered else FirstByteTimeout()
