"""One suite for every implementation of the inference port: the fake and gRPC."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import grpc
import pytest

from localai.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendRejected,
    BackendUnavailable,
    BackendUnimplemented,
    CallCancelled,
    FirstByteTimeout,
    IdleTimeout,
    LocalAIError,
    ModelGone,
    ModelUnloaded,
    WrongModel,
)
from localai.ids import new_id
from localai.inference.channels import MESSAGE_LIMIT_BYTES, Channels
from localai.inference.client import GrpcInference
from localai.inference.ports import Call, Endpoint, Inference, Limits, UnaryCall
from protos import backend_pb2
from tests.fakes.grpc_backend import GrpcBackend
from tests.fakes.inference import FakeInference, Script, Silent, embeds, fails, ranks, says

pytestmark = pytest.mark.contract

LIMIT_S = 30.0
LIMITS = Limits(first_byte_s=LIMIT_S, idle_s=LIMIT_S)
OPTIONS = backend_pb2.PredictOptions(Prompt="hello", ModelIdentity="m")
DOCUMENTS = backend_pb2.RerankRequest(query="hello", documents=["a", "b"], ModelIdentity="m")


class Bench(Protocol):
    """What the suite needs of an implementation: processes that can be started and ended."""

    inference: Inference

    def start(self, script: Script) -> Endpoint: ...

    def end(self, endpoint: Endpoint) -> None: ...

    def start_another_on(self, address: str, script: Script) -> Endpoint:
        """The port is given to the process of another model."""

    def close(self) -> None: ...


class FakeBench:
    def __init__(self) -> None:
        self.inference = FakeInference()

    def start(self, script: Script) -> Endpoint:
        return self.start_another_on(f"127.0.0.1:{len(self.inference.scripts) + 1}", script)

    def start_another_on(self, address: str, script: Script) -> Endpoint:
        endpoint = Endpoint(node_id="node-1", address=address, process_instance=new_id())
        self.inference.scripts[endpoint] = script
        return endpoint

    def end(self, endpoint: Endpoint) -> None:
        self.inference.end_process(endpoint)

    def close(self) -> None:
        self.inference.close()


class GrpcBench:
    def __init__(self) -> None:
        self.inference = GrpcInference()
        self.backends: dict[Endpoint, GrpcBackend] = {}

    def start(self, script: Script) -> Endpoint:
        return self._keep(GrpcBackend(script))

    def start_another_on(self, address: str, script: Script) -> Endpoint:
        return self._keep(GrpcBackend(script, port=int(address.rsplit(":", 1)[1])))

    def end(self, endpoint: Endpoint) -> None:
        self.backends.pop(endpoint).stop()

    def close(self) -> None:
        self.inference.close()
        for backend in self.backends.values():
            backend.stop()

    def _keep(self, backend: GrpcBackend) -> Endpoint:
        self.backends[backend.endpoint] = backend
        return backend.endpoint


@pytest.fixture(params=[FakeBench, GrpcBench], ids=["fake", "grpc"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench: Bench = request.param()
    try:
        yield bench
    finally:
        bench.close()


def drain(call: Call) -> backend_pb2.Reply:
    return list(call)[-1]


def result(call: Call) -> backend_pb2.Reply:
    return call.result()


def embedded(call: UnaryCall[backend_pb2.EmbeddingResult]) -> backend_pb2.EmbeddingResult:
    return call.result()


def ranked(call: UnaryCall[backend_pb2.RerankResult]) -> backend_pb2.RerankResult:
    return call.result()


#: Every kind of call, by how its answer is read.
READS = (result, drain, embedded, ranked)
Read = Callable[[Any], Any]


def start(bench: Bench, endpoint: Endpoint, read: Read, limits: Limits = LIMITS) -> Any:
    inference = bench.inference
    if read is ranked:
        return inference.rerank(endpoint, DOCUMENTS, limits)
    call = {result: inference.predict, drain: inference.stream, embedded: inference.embed}[read]
    return call(endpoint, OPTIONS, limits)


def ask(bench: Bench, endpoint: Endpoint, read: Read) -> Any:
    return read(start(bench, endpoint, read))


def test_a_unary_call_answers_the_whole(bench: Bench) -> None:
    endpoint = bench.start(says("Par", "is"))
    reply = ask(bench, endpoint, result)
    assert (reply.message, reply.tokens, reply.prompt_tokens) == (b"Paris", 2, 3)


def test_a_stream_answers_chunk_by_chunk(bench: Bench) -> None:
    endpoint = bench.start(says("Par", "is"))
    chunks = list(bench.inference.stream(endpoint, OPTIONS, LIMITS))
    assert [chunk.message for chunk in chunks] == [b"Par", b"is"]


def test_a_text_becomes_a_vector(bench: Bench) -> None:
    endpoint = bench.start(embeds(lambda asked: [0.5, len(asked.options.Prompt)]))
    found = ask(bench, endpoint, embedded)
    assert (list(found.embeddings), found.prompt_tokens) == ([0.5, 5.0], 3)


def test_documents_get_their_scores(bench: Bench) -> None:
    endpoint = bench.start(ranks(0.25, 0.75))
    found = ask(bench, endpoint, ranked)
    assert [(one.index, one.text, one.relevance_score) for one in found.results] == [(0, "a", 0.25), (1, "b", 0.75)]
    assert found.usage.total_tokens == 3


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "", ModelGone),
        (grpc.StatusCode.INTERNAL, "Model not loaded", ModelGone),
        (grpc.StatusCode.NOT_FOUND, "model identity mismatch: this holds b", WrongModel),
        (grpc.StatusCode.NOT_FOUND, "no face in the image", BackendError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "full", BackendBusy),
        (grpc.StatusCode.UNIMPLEMENTED, "", BackendUnimplemented),
        (grpc.StatusCode.INVALID_ARGUMENT, "too long", BackendRejected),
        (grpc.StatusCode.UNAVAILABLE, "not yet", BackendUnavailable),
        (grpc.StatusCode.INTERNAL, "it broke", BackendError),
        (grpc.StatusCode.UNKNOWN, "", BackendError),
    ],
)
def test_a_status_becomes_the_error_that_says_what_may_be_done(
    bench: Bench,
    read: Read,
    status: grpc.StatusCode,
    text: str,
    kind: type[LocalAIError],
) -> None:
    endpoint = bench.start(fails(status, text))
    with pytest.raises(kind) as caught:
        ask(bench, endpoint, read)
    assert type(caught.value) is kind


@pytest.mark.parametrize("read", READS)
def test_a_call_without_an_answer_is_cancelled_at_its_first_byte_limit(bench: Bench, read: Read) -> None:
    script = Silent()
    endpoint = bench.start(script)
    with pytest.raises(FirstByteTimeout):
        read(start(bench, endpoint, read, Limits(first_byte_s=0.5, idle_s=None)))
    assert script.cancelled.wait(LIMIT_S), "the process goes on with a call that nobody waits for"


def test_a_stream_that_pauses_is_cancelled_at_its_idle_limit(bench: Bench) -> None:
    script = Silent("first")
    endpoint = bench.start(script)
    chunks = iter(bench.inference.stream(endpoint, OPTIONS, Limits(first_byte_s=None, idle_s=0.5)))
    assert next(chunks).message == b"first"
    with pytest.raises(IdleTimeout):
        next(chunks)
    assert script.cancelled.wait(LIMIT_S), "the process goes on with a call that nobody waits for"


def test_a_call_without_limits_ends_only_by_its_process_or_its_caller(bench: Bench) -> None:
    script = Silent("first")
    endpoint = bench.start(script)
    call = bench.inference.stream(endpoint, OPTIONS, Limits(connect_s=None, first_byte_s=None, idle_s=None))
    chunks = iter(call)
    next(chunks)
    assert script.started.wait(LIMIT_S)
    assert not script.cancelled.wait(1.0)
    script.go.set()
    assert next(chunks).message == b"late"


@pytest.mark.parametrize("read", READS)
def test_a_call_that_is_cancelled_for_a_reason_raises_that_reason(bench: Bench, read: Read) -> None:
    script = Silent()
    endpoint = bench.start(script)
    call = start(bench, endpoint, read)
    assert script.started.wait(LIMIT_S)
    threading.Thread(target=call.cancel, args=(ModelUnloaded(),)).start()
    with pytest.raises(ModelUnloaded):
        read(call)
    assert script.cancelled.wait(LIMIT_S)


@pytest.mark.parametrize("read", READS)
def test_pm_06_a_cancel_reaches_a_silent_process(bench: Bench, read: Read) -> None:
    script = Silent()
    endpoint = bench.start(script)
    call = start(bench, endpoint, read)
    assert script.started.wait(LIMIT_S)
    threading.Thread(target=call.cancel).start()
    with pytest.raises(CallCancelled):
        read(call)
    assert script.cancelled.wait(LIMIT_S)


def test_a_stream_that_is_left_is_cancelled(bench: Bench) -> None:
    script = Silent("first")
    endpoint = bench.start(script)
    chunks = iter(bench.inference.stream(endpoint, OPTIONS, LIMITS))
    assert next(chunks).message == b"first"
    assert script.started.wait(LIMIT_S), "the process goes on behind the first chunk"
    chunks.close()  # type: ignore[attr-defined]
    assert script.cancelled.wait(LIMIT_S)


def test_sc_07_a_cancelled_stream_leaves_the_process_usable(bench: Bench) -> None:
    endpoint = bench.start(says("a", "b"))
    for _ in range(20):
        chunks = iter(bench.inference.stream(endpoint, OPTIONS, LIMITS))
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]
    assert ask(bench, endpoint, result).message == b"ab"


@pytest.mark.parametrize("read", READS)
def test_nobody_listens_is_unavailable(bench: Bench, read: Read) -> None:
    endpoint = bench.start(says("a"))
    bench.end(endpoint)
    with pytest.raises(BackendUnavailable):
        ask(bench, endpoint, read)


@pytest.mark.parametrize("read", READS)
def test_a_process_that_ends_under_a_call_has_crashed(bench: Bench, read: Read) -> None:
    """Other errors of a missing process say that it never had the request."""
    script = Silent()
    endpoint = bench.start(script)
    call = start(bench, endpoint, read)
    assert script.started.wait(LIMIT_S)
    threading.Thread(target=bench.end, args=(endpoint,)).start()
    with pytest.raises(BackendCrashed):
        read(call)


def test_a_process_that_ends_in_a_stream_has_crashed(bench: Bench) -> None:
    script = Silent("first")
    endpoint = bench.start(script)
    chunks = iter(bench.inference.stream(endpoint, OPTIONS, LIMITS))
    next(chunks)
    bench.end(endpoint)
    with pytest.raises(BackendCrashed):
        next(chunks)


def test_forgetting_an_instance_ends_its_calls(bench: Bench) -> None:
    script = Silent("first")
    endpoint = bench.start(script)
    chunks = iter(bench.inference.stream(endpoint, OPTIONS, LIMITS))
    next(chunks)
    bench.inference.forget(endpoint)
    with pytest.raises(BackendCrashed):
        next(chunks)


def test_c22_a_call_on_a_connection_that_broke_never_reaches_the_next_owner_of_the_port(bench: Bench) -> None:
    endpoint = bench.start(says("from the first"))
    assert ask(bench, endpoint, result).message == b"from the first"
    bench.end(endpoint)
    other = bench.start_another_on(endpoint.address, says("from another model"))
    for read in (result, drain, result):
        with pytest.raises(BackendUnavailable):
            ask(bench, endpoint, read)
    assert ask(bench, other, result).message == b"from another model"


def test_a_request_over_the_message_limit_is_refused_before_it_is_sent(bench: Bench) -> None:
    endpoint = bench.start(says("a"))
    large = backend_pb2.PredictOptions(Prompt="x" * (MESSAGE_LIMIT_BYTES + 1))
    for call in (bench.inference.predict, bench.inference.stream, bench.inference.embed):
        with pytest.raises(BackendRejected):
            call(endpoint, large, LIMITS)
    with pytest.raises(BackendRejected):
        bench.inference.rerank(endpoint, backend_pb2.RerankRequest(documents=[large.Prompt]), LIMITS)


@pytest.mark.parametrize("secret", ["a-secret-of-a-process", None])
def test_every_call_shows_the_secret_of_its_process(secret: str | None) -> None:
    """A process of an earlier agent has none, and is called as before."""
    backend = GrpcBackend(lambda asked: iter(()))
    bench = GrpcBench()
    bench.backends[backend.endpoint] = backend
    try:
        for read in READS:
            call = start(bench, replace(backend.endpoint, secret=secret), read)
            list(call) if read is drain else read(call)
        assert backend.shown == [secret and f"Bearer {secret}"] * len(READS)
    finally:
        bench.close()


def test_c22_a_first_dial_counts_only_while_the_rows_vouch_for_the_instance() -> None:
    """Picked, then frozen for longer than the port rests, then dialled: it may be anybody."""
    backend = GrpcBackend(says("from another model"))
    inference = GrpcInference(Channels(vouch=lambda endpoint: False))
    try:
        with pytest.raises(BackendUnavailable):
            inference.predict(backend.endpoint, OPTIONS, LIMITS)
        assert backend.asked == []
    finally:
        inference.close()
        backend.stop()
