"""The llama.cpp backend serves, cancels and refuses as the protocol says, on a tiny random model."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from protos import backend_pb2 as pb
from protos.backend_pb2_grpc import BackendStub
from tests.fakes import tiny_gguf
from tests.integration.backends.conftest import CANCEL_LIMIT_S, LIMIT_S, Running, start_process

pytestmark = pytest.mark.integration

#: More tokens than the test machine makes in the limit of any wait: such an answer ends by cancel only.
ENDLESS = {"Tokens": 0, "IgnoreEOS": True}


@pytest.fixture(scope="module")
def server(llama_folder: Path) -> Iterator[Running]:
    one = start_process(llama_folder)
    yield one
    one.end()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("models") / "tiny.gguf")


def load(stub: BackendStub, model: Path, **fields: object) -> pb.Result:
    options = {"Model": str(model), "ModelFile": str(model), "ContextSize": 512, "Threads": 1, "MMap": True} | fields
    return stub.LoadModel(pb.ModelOptions(**options), timeout=LIMIT_S)


@pytest.fixture
def stub(server: Running, model: Path) -> BackendStub:
    """The stub of a process that has just loaded the tiny model anew."""
    found = server.connect()
    result = load(found, model, Options=["parallel:2"])
    assert result.success, result.message
    return found


def chat(text: str = "hello", **fields: object) -> pb.PredictOptions:
    message = pb.Message(role="user", content=text)
    return pb.PredictOptions(Messages=[message], UseTokenizerTemplate=True, Temperature=0, **fields)


def refused(stub: BackendStub, request: pb.PredictOptions) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request, timeout=LIMIT_S)
    return caught.value


def test_health_is_ok_and_calls_without_a_model_are_a_failed_precondition(llama_folder: Path) -> None:
    one = start_process(llama_folder)
    try:
        stub = one.connect()
        assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
        assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.UNINITIALIZED
        assert refused(stub, chat()).code() is grpc.StatusCode.FAILED_PRECONDITION
        one.process.terminate()
        assert one.wait() == 0
    finally:
        one.end()


def test_a_chat_counts_its_tokens_and_says_why_it_ended(stub: BackendStub) -> None:
    reply, call = stub.Predict.with_call(chat(Tokens=5, IgnoreEOS=True), timeout=LIMIT_S)
    assert reply.tokens == 5
    assert reply.prompt_tokens > 0
    assert dict(call.trailing_metadata())["finish-reason"] == "length"


def test_a_prompt_is_completed_without_the_template(stub: BackendStub) -> None:
    reply = stub.Predict(pb.PredictOptions(Prompt="hello", Tokens=3, IgnoreEOS=True), timeout=LIMIT_S)
    assert reply.tokens == 3


def test_streamed_counts_are_cumulative_and_the_last_ones_are_final(stub: BackendStub) -> None:
    call = stub.PredictStream(chat(Tokens=6, IgnoreEOS=True), timeout=LIMIT_S)
    replies = list(call)
    counts = [reply.tokens for reply in replies]
    assert counts == sorted(counts)
    assert counts[-1] == 6
    assert {reply.prompt_tokens for reply in replies} == {replies[-1].prompt_tokens}
    assert dict(call.trailing_metadata())["finish-reason"] == "length"


def test_temperature_zero_gives_the_same_answer_streamed_or_not(stub: BackendStub) -> None:
    request = chat(Tokens=8, IgnoreEOS=True)
    streamed = b"".join(reply.message for reply in stub.PredictStream(request, timeout=LIMIT_S))
    assert stub.Predict(request, timeout=LIMIT_S).message == streamed


def test_answers_of_two_slots_run_side_by_side(stub: BackendStub) -> None:
    first = stub.PredictStream(chat(**ENDLESS), timeout=LIMIT_S)
    next(first)
    second = stub.PredictStream(chat("world", **ENDLESS), timeout=LIMIT_S)
    next(second)
    next(first)
    first.cancel()
    second.cancel()


@pytest.mark.parametrize("streamed", [True, False])
def test_a_cancelled_call_frees_its_slot_soon(server: Running, model: Path, streamed: bool) -> None:
    stub = server.connect()
    # One slot, and a context that takes far longer to fill than the test lasts.
    assert load(stub, model, ContextSize=tiny_gguf.CONTEXT).success
    method = stub.PredictStream if streamed else stub.Predict.future
    call = method(chat(**ENDLESS), timeout=LIMIT_S)
    if streamed:
        next(call)
    else:
        assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    call.cancel()
    began = time.monotonic()
    assert stub.Predict(chat(Tokens=1), timeout=LIMIT_S)
    assert time.monotonic() - began < CANCEL_LIMIT_S


def test_i12_another_identity_is_refused(stub: BackendStub, model: Path) -> None:
    error = refused(stub, chat(ModelIdentity="/elsewhere/other.gguf"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "model identity mismatch" in error.details()
    assert stub.Predict(chat(ModelIdentity=str(model), Tokens=1), timeout=LIMIT_S).tokens == 1


def test_a_prompt_over_the_context_is_an_invalid_argument_that_names_the_sizes(stub: BackendStub) -> None:
    error = refused(stub, chat("x" * 2000))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "context size (512 tokens)" in error.details()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Grammar": "root ::= ("}, "grammar"),
        ({"Tools": "no json"}, "Tools is not JSON"),
        ({"Tools": '"text"'}, "Tools is no list of objects"),
        ({"Metadata": {"response_format": "{"}}, "Metadata.response_format"),
    ],
)
def test_a_request_the_engine_cannot_use_is_an_invalid_argument(
    stub: BackendStub, fields: dict[str, object], said: str
) -> None:
    error = refused(stub, chat(Tokens=1, **fields))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert said in error.details()


def test_an_answer_obeys_a_json_schema(stub: BackendStub) -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    wanted = {"type": "json_schema", "json_schema": {"schema": schema}}
    reply = stub.Predict(chat(Tokens=100, Metadata={"response_format": json.dumps(wanted)}), timeout=LIMIT_S)
    assert isinstance(json.loads(reply.message)["ok"], bool)


def test_an_answer_obeys_a_grammar_and_a_stop_text(stub: BackendStub) -> None:
    grammar = 'root ::= "one two three"'
    assert stub.Predict(chat(Grammar=grammar), timeout=LIMIT_S).message == b"one two three"
    reply, call = stub.Predict.with_call(chat(Grammar=grammar, StopPrompts=[" three"]), timeout=LIMIT_S)
    assert reply.message == b"one two"
    assert dict(call.trailing_metadata())["finish-reason"] == "stop"


def test_health_and_status_answer_while_every_slot_is_busy(stub: BackendStub) -> None:
    calls = [stub.Predict.future(chat(**ENDLESS), timeout=LIMIT_S) for _ in range(6)]
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.READY
    for call in calls:
        call.cancel()


def test_more_calls_than_slots_wait_for_their_turn(stub: BackendStub) -> None:
    with ThreadPoolExecutor(20) as pool:
        replies = list(pool.map(lambda _: stub.Predict(chat(Tokens=3, IgnoreEOS=True), timeout=LIMIT_S), range(60)))
    assert [reply.tokens for reply in replies] == [3] * 60


def test_tokens_of_a_text_can_be_asked(stub: BackendStub) -> None:
    answer = stub.TokenizeString(pb.PredictOptions(Prompt="hello"), timeout=LIMIT_S)
    assert answer.length == len(answer.tokens) > 0


def test_models_that_are_dropped_as_soon_as_they_are_loaded_end(server: Running, model: Path) -> None:
    stub = server.connect()
    for number in range(40):
        assert load(stub, model, Embeddings=number % 2 == 0).success


def test_embeddings_come_from_a_model_loaded_for_them_only(stub: BackendStub, model: Path) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Embedding(pb.PredictOptions(Embeddings="hello"), timeout=LIMIT_S)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "embeddings: true" in caught.value.details()
    assert load(stub, model, Embeddings=True).success
    answer = stub.Embedding(pb.PredictOptions(Embeddings="hello"), timeout=LIMIT_S)
    assert answer.dim == len(answer.embeddings) == tiny_gguf.WIDTH
    assert answer.prompt_tokens > 0


def test_a_freed_model_is_gone_and_can_be_loaded_again(stub: BackendStub, model: Path) -> None:
    assert stub.Free(pb.HealthMessage(), timeout=LIMIT_S).success
    assert refused(stub, chat()).code() is grpc.StatusCode.FAILED_PRECONDITION
    assert load(stub, model).success


@pytest.mark.parametrize("broken", ["truncated", "missing"])
def test_a_model_that_cannot_be_loaded_is_a_refusal_with_the_reason_on_stderr(
    llama_folder: Path, tmp_path: Path, broken: str
) -> None:
    path = tmp_path / "broken.gguf"
    if broken == "truncated":
        tiny_gguf.truncated(path)
    one = start_process(llama_folder)
    try:
        result = load(one.connect(), path)
        assert not result.success
        assert "broken.gguf" in result.message
        one.line("corrupted or incomplete" if broken == "truncated" else "No such file")
    finally:
        one.end()


def test_an_option_that_cannot_be_used_refuses_the_load(server: Running, model: Path) -> None:
    result = load(server.connect(), model, Options=["parallel:many"])
    assert not result.success
    assert "parallel" in result.message


def test_sigterm_ends_the_process_in_order_during_an_answer(llama_folder: Path, model: Path) -> None:
    one = start_process(llama_folder)
    try:
        stub = one.connect()
        assert load(stub, model, ContextSize=tiny_gguf.CONTEXT).success
        stream = stub.PredictStream(chat(**ENDLESS), timeout=LIMIT_S)
        next(stream)
        one.process.terminate()
        with pytest.raises(grpc.RpcError):
            list(stream)
        assert one.wait() == 0
    finally:
        one.end()
