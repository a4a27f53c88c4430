"""A model is refused for what its config or its backend says it is not for, before anything loads."""

from __future__ import annotations

from typing import Any

import pytest

from localai.backends.catalogue import entries
from tests.fakes.inference import says
from tests.fakes.web import WebBench
from web.usecases import _KNOWN

pytestmark = pytest.mark.unit

BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/completions": {"prompt": "x"},
    "/v1/embeddings": {"input": "x"},
    "/v1/rerank": {"query": "x", "documents": ["y"]},
}
TEXT, VECTORS = list(BODIES)[:2], list(BODIES)[2:]


def refusal(bench: WebBench, path: str, **body: Any) -> str:
    """The message of the refusal; nothing was loaded."""
    response = bench.post(path, {"model": "m", **BODIES[path], **body})
    error = response.get_json()["error"]
    assert (response.status_code, error["code"]) == (400, "not_offered"), error
    assert bench.loads.requests == []
    return str(error["message"])


@pytest.mark.parametrize("path", TEXT)
@pytest.mark.parametrize("stream", [False, True])
def test_text_of_an_encoder_is_refused_by_what_its_config_lists(bench: WebBench, path: str, stream: bool) -> None:
    bench.model("m", known_usecases="[embeddings, FLAG_RERANK]")
    message = refusal(bench, path, stream=stream)
    assert "'m'" in message and "'fault'" in message
    assert "makes no text: its config lists embeddings, rerank" in message


@pytest.mark.parametrize("path", TEXT)
def test_text_of_an_encoder_is_refused_by_its_backend_where_the_config_lists_nothing(
    bench: WebBench, path: str
) -> None:
    bench.model("m", backend="minilm")
    assert "makes no text: the backend is for embeddings and rerank" in refusal(bench, path)


@pytest.mark.parametrize("path", VECTORS)
def test_vectors_of_a_chat_model_are_refused_by_what_its_config_lists(bench: WebBench, path: str) -> None:
    bench.model("m", known_usecases="[chat, completion]")
    assert "makes no vectors: its config lists chat, completion" in refusal(bench, path)


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        *((path, {}) for path in BODIES),
        *((path, {"known_usecases": "[vision_of_the_future]"}) for path in BODIES),
        *((path, {"known_usecases": "[embeddings, chat]"}) for path in BODIES),
        *((path, {"known_usecases": "[completion]"}) for path in TEXT),
        *((path, {"known_usecases": "[rerank]"}) for path in VECTORS),
        ("/v1/embeddings", {"known_usecases": "[chat]", "embeddings": "true"}),
        ("/v1/rerank", {"known_usecases": "[chat]", "reranking": "true"}),
        *((path, {"backend": "minilm"}) for path in VECTORS),
        *((path, {"backend": "one-of-somebody-else"}) for path in BODIES),
    ],
)
def test_what_nobody_says_no_to_is_loaded(bench: WebBench, path: str, keys: dict[str, str]) -> None:
    bench.model("m", **keys)
    assert bench.post(path, {"model": "m", **BODIES[path]}).status_code == 503
    assert bench.loads.requests == ["m"]


def test_a_warm_model_is_refused_in_the_same_words(bench: WebBench) -> None:
    bench.model("m", says("a"), known_usecases="[embeddings]")
    assert "makes no text" in refusal(bench, "/v1/chat/completions")
    assert bench.inference.asked == []


def test_every_word_of_the_catalogue_is_known() -> None:
    assert {word for entry in entries(enable_fault=True) for word in entry.usecases} <= _KNOWN
