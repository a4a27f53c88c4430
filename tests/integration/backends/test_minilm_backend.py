"""The encoder of the built-in gallery as a real process: fetched, loaded, and asked for vectors and for an order."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from google.protobuf import json_format

from localai.galleries.index import write_new_entries
from localai.galleries.install import install_files
from localai.models.config import ModelConfig
from localai.models.loader import ModelConfigs
from localai.models.options import model_options
from localai.staging.digests import Digests
from localai.staging.plan import ready_files
from protos import backend_pb2 as pb
from protos.backend_pb2_grpc import BackendStub
from tests.integration.backends.conftest import LIMIT_S, Running, start_process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SIZE = 384
SENTENCE = "A man is eating food."
PARAPHRASE = "Someone is having a meal."
STRANGER = "The stock market crashed yesterday."


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
    found = configs.get("minilm-l6-v2")
    assert found is not None
    digests = Digests()
    install_files(found, models, digests, lambda _: None)
    files = ready_files(found, models, digests)
    assert files is not None and len(files) == 2
    return found


@pytest.fixture(scope="module")
def server(minilm_folder: Path) -> Iterator[Running]:
    one = start_process(minilm_folder)
    yield one
    one.end()


@pytest.fixture(scope="module")
def stub(server: Running, models: Path, config: ModelConfig) -> BackendStub:
    stub = server.connect()
    options = pb.ModelOptions(ModelPath=str(models))
    options.Model = options.ModelFile = str(models / config.identity)
    json_format.ParseDict(model_options(config, threads=1), options)
    result = stub.LoadModel(options, timeout=LIMIT_S)
    assert result.success, (result.message, server.lines)
    return stub


@pytest.fixture
def empty(minilm_folder: Path) -> Iterator[Running]:
    """A process of its own, without a model."""
    one = start_process(minilm_folder)
    yield one
    one.end()


@pytest.fixture
def copied(models: Path, config: ModelConfig, tmp_path: Path) -> Path:
    """A folder with the model's files that may be spoiled."""
    folder = tmp_path / "model"
    shutil.copytree((models / config.identity).parent, folder)
    return folder


def embed(stub: BackendStub, text: str = "", **fields: object) -> pb.EmbeddingResult:
    return stub.Embedding(pb.PredictOptions(Embeddings=text, **fields), timeout=LIMIT_S)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def refused(call: object, request: object) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=LIMIT_S)  # type: ignore[operator]
    return caught.value


def test_a_vector_has_the_models_size_and_length_one(stub: BackendStub) -> None:
    result = embed(stub, SENTENCE)
    assert len(result.embeddings) == result.dim == SIZE
    assert math.hypot(*result.embeddings) == pytest.approx(1, abs=1e-5)
    assert result.layout == pb.EMBEDDING_LAYOUT_FINAL


def test_a_paraphrase_is_closer_than_a_stranger(stub: BackendStub) -> None:
    sentence, paraphrase, stranger = (embed(stub, text).embeddings for text in (SENTENCE, PARAPHRASE, STRANGER))
    assert cosine(sentence, paraphrase) > cosine(sentence, stranger) + 0.4


def test_a_text_has_the_same_vector_whatever_it_comes_with(stub: BackendStub) -> None:
    alone = embed(stub, SENTENCE)
    with ThreadPoolExecutor(16) as pool:
        among = list(pool.map(lambda text: embed(stub, text), [SENTENCE, STRANGER * 20, SENTENCE, "a"] * 8))
    assert [result.embeddings == alone.embeddings for result in among] == [True, False, True, False] * 8


def test_tokens_of_a_text_give_the_vector_of_the_text(stub: BackendStub) -> None:
    answer = stub.TokenizeString(pb.PredictOptions(Prompt=SENTENCE), timeout=LIMIT_S)
    assert answer.length == len(answer.tokens) == 8
    result = embed(stub, EmbeddingTokens=answer.tokens)
    assert result.embeddings == embed(stub, SENTENCE).embeddings
    assert result.prompt_tokens == result.tokens == 8


def test_a_long_text_is_cut_at_the_context_and_the_count_says_so(stub: BackendStub) -> None:
    long = "one two three four " * 500
    assert stub.TokenizeString(pb.PredictOptions(Prompt=long), timeout=LIMIT_S).length == 2002
    result = embed(stub, long)
    assert result.prompt_tokens == 256
    assert result.embeddings == embed(stub, long + " and a different end").embeddings


@pytest.mark.parametrize("fields", [{}, {"EmbeddingTokens": [101, 30522, 102]}, {"EmbeddingTokens": [-1]}])
def test_nothing_and_unknown_tokens_are_an_invalid_argument(stub: BackendStub, fields: dict[str, object]) -> None:
    error = refused(stub.Embedding, pb.PredictOptions(**fields))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Embeddings is empty" in error.details() or "none of this model's" in error.details()


def test_documents_come_in_the_order_of_their_meaning(stub: BackendStub) -> None:
    documents = [STRANGER, PARAPHRASE, "A chef cooks pasta."]
    result = stub.Rerank(pb.RerankRequest(query=SENTENCE, documents=documents), timeout=LIMIT_S)
    assert [found.index for found in result.results] == [1, 2, 0]
    assert [found.text for found in result.results] == [documents[found.index] for found in result.results]
    scores = [found.relevance_score for found in result.results]
    vectors = [embed(stub, text).embeddings for text in (SENTENCE, PARAPHRASE)]
    assert scores[0] == pytest.approx(cosine(*vectors), abs=1e-5)
    counts = [embed(stub, text).tokens for text in (SENTENCE, *documents)]
    assert result.usage.total_tokens == result.usage.prompt_tokens == sum(counts)


def test_top_n_keeps_the_best(stub: BackendStub) -> None:
    request = pb.RerankRequest(query=SENTENCE, documents=[STRANGER, PARAPHRASE], top_n=1)
    assert [found.index for found in stub.Rerank(request, timeout=LIMIT_S).results] == [1]
    request.top_n = 9
    assert len(stub.Rerank(request, timeout=LIMIT_S).results) == 2


def test_i12_another_identity_is_refused(stub: BackendStub, models: Path, config: ModelConfig) -> None:
    other = "/elsewhere/model.onnx"
    for call, request in (
        (stub.Embedding, pb.PredictOptions(Embeddings="a", ModelIdentity=other)),
        (stub.TokenizeString, pb.PredictOptions(Prompt="a", ModelIdentity=other)),
        (stub.Rerank, pb.RerankRequest(query="a", documents=["b"], ModelIdentity=other)),
    ):
        error = refused(call, request)
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert "model identity mismatch" in error.details()
    assert embed(stub, "a", ModelIdentity=str(models / config.identity)).dim == SIZE


def test_a_chat_is_not_offered(stub: BackendStub) -> None:
    assert refused(stub.Predict, pb.PredictOptions(Prompt="hello")).code() is grpc.StatusCode.UNIMPLEMENTED


def test_health_is_ok_and_calls_without_a_model_are_a_failed_precondition(empty: Running) -> None:
    stub = empty.connect()
    assert stub.Health(pb.HealthMessage(), timeout=LIMIT_S).message == b"OK"
    assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.UNINITIALIZED
    error = refused(stub.Embedding, pb.PredictOptions(Embeddings="a"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    empty.process.terminate()
    assert empty.wait() == 0


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "model.onnx").write_bytes(b"\x08\x01not a model"), "could not load"),
        (lambda folder: (folder / "model.onnx").unlink(), "model.onnx is missing"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "the tokenizer must lie beside the model"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "is not a tokenizer"),
    ],
)
def test_files_that_cannot_be_used_fail_the_load_with_their_name(
    empty: Running, copied: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(copied)
    stub = empty.connect()
    result = stub.LoadModel(pb.ModelOptions(ModelFile=str(copied / "model.onnx")), timeout=LIMIT_S)
    assert not result.success
    assert said in result.message and str(copied) in result.message
    assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.UNINITIALIZED


def test_an_option_that_cannot_be_used_is_named(empty: Running, models: Path, config: ModelConfig) -> None:
    options = pb.ModelOptions(ModelFile=str(models / config.identity), Options=["parallel:many"])
    result = empty.connect().LoadModel(options, timeout=LIMIT_S)
    assert not result.success and "parallel" in result.message and "many" in result.message


def test_a_freed_model_is_gone_and_can_be_loaded_again_from_its_folder(
    empty: Running, models: Path, config: ModelConfig
) -> None:
    stub = empty.connect()
    folder = str((models / config.identity).parent)
    for _ in range(2):
        assert stub.LoadModel(pb.ModelOptions(Model=folder, Options=["parallel:2"]), timeout=LIMIT_S).success
        assert stub.Status(pb.HealthMessage(), timeout=LIMIT_S).state == pb.StatusResponse.READY
        assert embed(stub, "a", ModelIdentity=folder).dim == SIZE
        assert stub.Free(pb.HealthMessage(), timeout=LIMIT_S).success
        error = refused(stub.Embedding, pb.PredictOptions(Embeddings="a"))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
