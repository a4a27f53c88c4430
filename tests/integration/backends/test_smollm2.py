"""The model of the built-in gallery answers as a newcomer will see it: fetched, loaded and asked for real."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from localai.galleries.index import write_new_entries
from localai.galleries.install import install_files
from localai.inference.convert import ChatRequest, Message, Sampling, predict_options
from localai.models.config import ModelConfig
from localai.models.loader import ModelConfigs
from localai.models.options import model_options
from localai.staging.digests import Digests
from localai.staging.plan import ready_files
from protos import backend_pb2 as pb
from protos.backend_pb2_grpc import BackendStub
from tests.integration.backends.conftest import CANCEL_LIMIT_S, LIMIT_S, Running, start_process
from web.openai.defaults import chat_defaults

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

#: A busy machine is ten times slower than a quiet one.
ANSWER_LIMIT_S = 300


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_new_entries(folder, folder / ".given")
    return folder


@pytest.fixture(scope="module")
def config(models: Path) -> ModelConfig:
    """The config of the gallery entry, with all its files in place."""
    configs = ModelConfigs(models)
    configs.refresh()
    found = configs.get("smollm2-135m")
    assert found is not None
    digests = Digests()
    install_files(found, models, digests, lambda _: None)
    assert ready_files(found, models, digests)
    return found


@pytest.fixture(scope="module")
def stub(llama_folder: Path, models: Path, config: ModelConfig) -> Iterator[BackendStub]:
    one = start_process(llama_folder)
    try:
        yield loaded(one, models, config)
    finally:
        one.end()


def loaded(one: Running, models: Path, config: ModelConfig) -> BackendStub:
    """The stub of a process that has loaded the model as the config says."""
    stub = one.connect()
    path = str(models / config.identity)
    options = pb.ModelOptions(Model=path, ModelFile=path, ModelPath=str(models))
    json_format.ParseDict(model_options(config, threads=1), options)
    result = stub.LoadModel(options, timeout=LIMIT_S)
    assert result.success, (result.message, one.lines)
    return stub


def question(config: ModelConfig, text: str, **fields: object) -> pb.PredictOptions:
    messages = [pb.Message(role="system", content=config.system_prompt), pb.Message(role="user", content=text)]
    temperature = config.parameters.temperature
    return pb.PredictOptions(Messages=messages, UseTokenizerTemplate=True, Temperature=temperature, **fields)


def test_the_capital_of_france_is_paris_streamed_or_not(stub: BackendStub, config: ModelConfig) -> None:
    request = question(config, "What is the capital of France?", Tokens=40)
    reply = stub.Predict(request, timeout=ANSWER_LIMIT_S)
    assert b"Paris" in reply.message
    assert 0 < reply.tokens < 40
    assert reply.prompt_tokens > 20
    parts = list(stub.PredictStream(request, timeout=ANSWER_LIMIT_S))
    assert b"".join(part.message for part in parts) == reply.message
    assert parts[-1].tokens == reply.tokens


def test_the_answer_is_the_same_after_four_prompts_that_shared_their_batches(
    stub: BackendStub, config: ModelConfig
) -> None:
    """Numbers depend on the shape of a batch, and all prompts share a cached prefix: a close call would flip."""
    numbers = " ".join(f"number {number}" for number in range(30))
    calls = [
        stub.PredictStream(question(config, f"{slot} {numbers}", Tokens=1), timeout=ANSWER_LIMIT_S) for slot in range(4)
    ]
    for call in calls:
        assert list(call)
    reply = stub.Predict(question(config, "What is the capital of France?", Tokens=40), timeout=ANSWER_LIMIT_S)
    assert reply.message == b"The capital of France is Paris."


def test_a_cancel_during_a_long_prompt_or_answer_frees_the_slots_soon(stub: BackendStub, config: ModelConfig) -> None:
    """All four slots take a long prompt; after their cancel a short question finds a free one."""
    long = " ".join(f"number {number}" for number in range(400))
    calls = [stub.PredictStream(question(config, f"{slot} {long}"), timeout=ANSWER_LIMIT_S) for slot in range(4)]
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    for call in calls:
        call.cancel()
    began = time.monotonic()
    reply = stub.Predict(question(config, "Hi", Tokens=1), timeout=ANSWER_LIMIT_S)
    assert reply.tokens == 1
    assert time.monotonic() - began < CANCEL_LIMIT_S


def test_a_question_over_the_context_is_refused_with_the_sizes(stub: BackendStub, config: ModelConfig) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(question(config, "word " * 3000), timeout=ANSWER_LIMIT_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "2048 tokens" in caught.value.details()


def word(stub: BackendStub, config: ModelConfig, **sampling: Any) -> bytes:
    """One word as a chat request of these values gets it, drawn from a flat distribution."""
    request = ChatRequest(
        messages=(Message(role="user", content="Say one word"),),
        sampling=Sampling(temperature=2.0, max_tokens=1, **sampling),
    )
    return bytes(stub.Predict(predict_options(request, chat_defaults(config)), timeout=ANSWER_LIMIT_S).message)


def test_top_p_zero_is_the_most_likely_word_with_every_seed(stub: BackendStub, config: ModelConfig) -> None:
    words = {word(stub, config, top_p=0.0, seed=seed) for seed in range(15)}
    assert words == {word(stub, config, top_k=1, seed=0)}


def test_top_k_zero_is_no_limit(stub: BackendStub, config: ModelConfig) -> None:
    def words(top_k: int) -> list[bytes]:
        return [word(stub, config, top_p=1.0, top_k=top_k, seed=seed) for seed in range(60)]

    unlimited, limited = words(0), words(40)
    assert unlimited == words(100_000)
    assert unlimited != limited
    in_config = replace(config, parameters=replace(config.parameters, top_k=0))
    assert word(stub, in_config, top_p=1.0, seed=7) == unlimited[7]


ENUM = [f"value {number}" for number in range(100_000)]


@pytest.mark.parametrize(
    "fields",
    [
        {"Grammar": "root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000},
        {"Grammar": "root ::= " + '"a"? ' * 200},
        {"Repeat": 2**31 - 1, "Penalty": 1.1},
        {"NKeep": 2**31 - 1},
        {
            "Metadata": {
                "response_format": json.dumps({"type": "json_schema", "json_schema": {"schema": {"enum": ENUM}}})
            }
        },
    ],
    ids=["grammar", "optional parts", "repeat_last_n", "n_keep", "enum"],
)
def test_a_request_that_would_take_the_engine_from_others_is_refused_at_once(
    stub: BackendStub, config: ModelConfig, fields: dict[str, Any]
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(question(config, "Hi", Tokens=1, **fields), timeout=LIMIT_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "accepted: at most" in caught.value.details()
    assert stub.Predict(question(config, "Hi", Tokens=1), timeout=ANSWER_LIMIT_S).tokens == 1, "others are served"


def test_a_grammar_as_deep_as_allowed_is_parsed(stub: BackendStub, config: ModelConfig) -> None:
    deep = "root ::= " + "(" * 256 + '"a"' + ")" * 256
    assert stub.Predict(question(config, "Hi", Grammar=deep), timeout=ANSWER_LIMIT_S).message == b"a"


#: Each rule adds one optional part to what may follow, where no row of them can be seen.
AMBIGUOUS = "root ::= r0\n" + "".join(f'r{n} ::= r{n + 1} "a"?\n' for n in range(400)) + 'r400 ::= "a"'


def test_a_grammar_that_holds_the_engine_ends_its_process_at_the_limit(
    llama_folder: Path, models: Path, config: ModelConfig
) -> None:
    """Within the bounds, and far too ambiguous: the engine would work for minutes for each token."""
    one = start_process(llama_folder)
    try:
        limited = replace(config, options=("parallel:1", "sampler_limit:5"))
        stub = loaded(one, models, limited)
        with pytest.raises(grpc.RpcError) as caught:
            stub.Predict(question(config, "Hi", Grammar=AMBIGUOUS), timeout=ANSWER_LIMIT_S)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert one.wait() == 70
        assert "has held the engine for 5 s" in one.lines[-1]
    finally:
        one.end()
