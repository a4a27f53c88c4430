"""The encoder and the raw completion through the whole chain: `localai up`, the openai client, real models."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import openai
import pytest

from tests.acceptance.cluster import API_KEY, Cluster, Frontend

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

MODEL = "minilm-l6-v2"
FAULT = "three-tokens"
SIZE = 384
SENTENCE = "How do I reset my password?"
PARAPHRASE = "I forgot my login credentials and need a new one."
STRANGER = "The recipe needs two eggs and a cup of flour."


@pytest.fixture(scope="module", autouse=True)
def fault_model(machine: Cluster, up: Frontend) -> None:
    machine.model(FAULT, "fault", "tokens:3")
    up.wait_for_model(FAULT)


@pytest.fixture(scope="module")
def api(up: Frontend) -> Iterator[openai.OpenAI]:
    # The client repeats a 503 while the model loads, as long as Retry-After says.
    with openai.OpenAI(base_url=up.url + "/v1", api_key=API_KEY, timeout=300, max_retries=10) as client:
        yield client


@pytest.fixture(scope="module")
def vectors(api: openai.OpenAI) -> Sequence[Sequence[float]]:
    """Of the sentence, its paraphrase and the stranger; the first request loads the model."""
    answer = api.embeddings.create(model=MODEL, input=[SENTENCE, PARAPHRASE, STRANGER], encoding_format="float")
    return [one.embedding for one in answer.data]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def post(up: Frontend, **fields: Any) -> Any:
    return up.post("/v1/embeddings", {"model": MODEL, **fields})


def test_a_paraphrase_is_above_a_stranger_by_a_margin(vectors: Sequence[Sequence[float]]) -> None:
    sentence, paraphrase, stranger = vectors
    assert {len(vector) for vector in vectors} == {SIZE}
    assert math.hypot(*sentence) == pytest.approx(1, abs=1e-5)
    assert cosine(sentence, paraphrase) > cosine(sentence, stranger) + 0.3


def test_the_client_s_own_base64_and_plain_floats_are_the_same_numbers(
    up: Frontend, api: openai.OpenAI, vectors: Sequence[Sequence[float]]
) -> None:
    assert api.embeddings.create(model=MODEL, input=SENTENCE).data[0].embedding == vectors[0]
    encoded = post(up, input=SENTENCE, encoding_format="base64").json()["data"][0]["embedding"]
    assert list(struct.unpack(f"<{SIZE}f", base64.b64decode(encoded))) == vectors[0]


def test_every_form_of_input_is_answered_in_order(api: openai.OpenAI, vectors: Sequence[Sequence[float]]) -> None:
    # [CLS] hello [SEP] and [CLS] world [SEP] in the model's vocabulary.
    hello, world = [101, 7592, 102], [101, 2088, 102]
    plain = api.embeddings.create(model=MODEL, input=["hello", "world"])
    assert [one.index for one in plain.data] == [0, 1]
    assert api.embeddings.create(model=MODEL, input=hello).data[0].embedding == plain.data[0].embedding
    both = api.embeddings.create(model=MODEL, input=[hello, world])
    assert [one.embedding for one in both.data] == [one.embedding for one in plain.data]
    assert (both.usage.prompt_tokens, both.usage.total_tokens) == (6, 6)
    many = api.embeddings.create(model=MODEL, input=[SENTENCE, STRANGER] * 30)
    assert [one.embedding for one in many.data] == [vectors[0], vectors[2]] * 30


def test_a_text_beyond_the_context_is_cut_and_counted_so(api: openai.OpenAI) -> None:
    assert api.embeddings.create(model=MODEL, input="word " * 1000).usage.prompt_tokens == 256


def test_a_warm_request_makes_no_sql_statement(up: Frontend, vectors: object) -> None:
    assert up.statements_of(post(up, input="a")) == 0


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": ["a", None]}, "input"),
        ({"input": ["a"] * 10_000}, "input"),
        ({"input": "a", "dimensions": 100}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
)
def test_a_wrong_field_is_a_400_that_names_it(up: Frontend, fields: dict[str, Any], name: str, vectors: object) -> None:
    response = post(up, **fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert name in error["message"] and name in error["param"]


def test_a_token_that_the_model_does_not_have_is_a_400_in_its_own_words(up: Frontend, vectors: object) -> None:
    response = post(up, input=[101, 99_999, 102])
    assert response.status_code == 400
    assert "99999" in response.json()["error"]["message"]


def test_rerank_puts_the_documents_in_a_sensible_order(up: Frontend, vectors: object) -> None:
    documents = [STRANGER, {"text": "Account recovery: set a new password from the sign-in page."}, PARAPHRASE]
    body = {"model": MODEL, "query": SENTENCE, "documents": documents}
    answer = up.post("/v1/rerank", body).json()
    assert [found["index"] for found in answer["results"]] == [1, 2, 0]
    scores = [found["relevance_score"] for found in answer["results"]]
    assert scores[1] > scores[2] + 0.3
    assert answer["results"][0]["document"]["text"].startswith("Account recovery")
    assert answer["usage"]["total_tokens"] > 20
    best = up.post("/v1/rerank", {**body, "top_n": 1, "return_documents": False}).json()["results"]
    assert best == [{"index": 1, "relevance_score": pytest.approx(scores[0])}]


@pytest.mark.parametrize(
    ("fields", "status", "name"),
    [
        ({"top_n": 0}, 422, "top_n"),
        ({"documents": []}, 400, "documents"),
        ({"documents": ["a", 3]}, 400, "documents[1]"),
        ({"query": ""}, 400, "query"),
    ],
)
def test_a_wrong_rerank_is_refused_with_the_field(up: Frontend, fields: dict[str, Any], status: int, name: str) -> None:
    response = up.post("/v1/rerank", {"model": MODEL, "query": "q", "documents": ["a"], **fields})
    assert response.status_code == status
    assert response.json()["error"]["param"] == name


@pytest.mark.parametrize(
    ("path", "model", "body"),
    [
        ("/v1/chat/completions", MODEL, {"messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/completions", MODEL, {"prompt": "hello"}),
        ("/v1/embeddings", FAULT, {"input": "hello"}),
        ("/v1/rerank", FAULT, {"query": "q", "documents": ["a"]}),
    ],
)
def test_a_call_that_the_model_s_backend_lacks_is_a_400_that_names_both(
    up: Frontend, vectors: object, path: str, model: str, body: dict[str, Any]
) -> None:
    up.chat_until_answered(FAULT)
    response = up.post(path, {"model": model, **body})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["code"] == "not_offered"
    assert model in error["message"] and ("minilm" in error["message"] or "fault" in error["message"])


def test_a_raw_prompt_is_completed_by_the_fault_backend_whole_and_streamed(up: Frontend, api: openai.OpenAI) -> None:
    up.chat_until_answered(FAULT)
    answer = api.completions.create(model=FAULT, prompt=["one two", "three"])
    assert [choice.text for choice in answer.choices] == [f"{FAULT} says: tok1 tok2 tok3"] * 2
    assert answer.usage and (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 6)
    chunks = list(api.completions.create(model=FAULT, prompt="one two", max_tokens=2, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == f"{FAULT} says: tok1 tok2"
    assert [chunk.choices[0].finish_reason for chunk in chunks] == [None, None, "length"]
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [1, 2, 2]


def test_a_raw_prompt_is_completed_by_the_chat_model_whole_and_streamed(up: Frontend, api: openai.OpenAI) -> None:
    wanted = {"model": "smollm2-135m", "prompt": "The capital of France is", "temperature": 0, "max_tokens": 8}
    answer = api.completions.create(**wanted)  # type: ignore[call-overload]
    assert "Paris" in answer.choices[0].text
    assert answer.usage.completion_tokens == 8 and answer.choices[0].finish_reason == "length"
    chunks = list(api.completions.create(**wanted, stream=True))  # type: ignore[call-overload]
    assert "".join(chunk.choices[0].text for chunk in chunks) == answer.choices[0].text
    assert all(chunk.usage for chunk in chunks)
    assert chunks[-1].usage == answer.usage


def test_the_older_addresses_answer_too(up: Frontend, vectors: object) -> None:
    for path in ("/embeddings", f"/v1/engines/{MODEL}/embeddings"):
        assert up.post(path, {"model": MODEL, "input": "a"}).status_code == 200
    assert up.post(f"/v1/engines/{MODEL}/embeddings", {"input": "a"}).status_code == 200
    assert up.post("/rerank", {"model": MODEL, "query": "q", "documents": ["a"]}).status_code == 200
