"""POST /v1/rerank over fakes: the order, what is shown of it, and each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from protos import backend_pb2
from tests.fakes.inference import Asked, fails, ranks
from tests.fakes.web import WebBench
from web import limits

pytestmark = pytest.mark.unit

DOCUMENTS = ["one", {"text": "two", "title": "ignored"}, "three"]


@pytest.fixture
def bench(bench: WebBench) -> WebBench:
    bench.model("m", ranks(0.25, 0.75, 0.5))
    return bench


def ask(bench: WebBench, **fields: Any) -> Any:
    return bench.post("/v1/rerank", {"model": "m", "query": "q", "documents": DOCUMENTS, **fields})


def test_the_best_comes_first_with_its_place_text_and_score(bench: WebBench) -> None:
    body = ask(bench).get_json()
    assert body == {
        "model": "m",
        "usage": {"total_tokens": 3, "prompt_tokens": 3},
        "results": [
            {"index": 1, "document": {"text": "two"}, "relevance_score": 0.75},
            {"index": 2, "document": {"text": "three"}, "relevance_score": 0.5},
            {"index": 0, "document": {"text": "one"}, "relevance_score": 0.25},
        ],
    }
    (_, request), *_ = bench.inference.asked
    assert (request.query, list(request.documents), request.top_n) == ("q", ["one", "two", "three"], 3)
    assert request.ModelIdentity == "identity-of-m"


@pytest.mark.parametrize(
    ("top_n", "indexes"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 0]), (99, [1, 2, 0]), (None, [1, 2, 0])]
)
def test_top_n_keeps_the_best(bench: WebBench, top_n: int | None, indexes: list[int]) -> None:
    assert [found["index"] for found in ask(bench, top_n=top_n).get_json()["results"]] == indexes


def test_texts_are_left_out_on_request(bench: WebBench) -> None:
    results = ask(bench, return_documents=False).get_json()["results"]
    assert results[0] == {"index": 1, "relevance_score": 0.75}


def test_of_equal_ones_the_earlier_comes_first(bench: WebBench) -> None:
    bench.model("same", ranks(0.5, 0.5, 0.5))
    assert [found["index"] for found in ask(bench, model="same").get_json()["results"]] == [0, 1, 2]


@pytest.mark.parametrize("top_n", [0, -1])
def test_a_top_n_below_one_is_422(bench: WebBench, top_n: int) -> None:
    response = ask(bench, top_n=top_n)
    assert response.status_code == 422
    error = response.get_json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "top_n")
    assert str(top_n) in error["message"] and "1" in error["message"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"query": None}, "query"),
        ({"query": ""}, "query"),
        ({"query": 3}, "query"),
        ({"documents": None}, "documents"),
        ({"documents": "one"}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": ["one", 3]}, "documents[1]"),
        ({"documents": [{"title": "one"}]}, "documents[0]"),
        ({"documents": ["one"] * (limits.DOCUMENTS.most + 1)}, "documents"),
        ({"top_n": 1.5}, "top_n"),
        ({"top_n": "1"}, "top_n"),
        ({"return_documents": "no"}, "return_documents"),
        ({"model": None}, "model"),
    ],
)
def test_a_wrong_field_is_a_400_that_names_it(bench: WebBench, fields: dict[str, Any], name: str) -> None:
    response = ask(bench, **fields)
    assert response.status_code == 400
    assert response.get_json()["error"]["param"] == name
    assert name in response.get_json()["error"]["message"]
    assert bench.inference.asked == []


def test_the_address_without_v1_answers_too(bench: WebBench) -> None:
    response = bench.post("/rerank", {"model": "m", "query": "q", "documents": DOCUMENTS})
    assert len(response.get_json()["results"]) == 3


def test_a_backend_without_rerank_is_a_400_that_names_it(bench: WebBench) -> None:
    bench.model("chatty", fails(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!"))
    error = ask(bench, model="chatty").get_json()["error"]
    assert error["code"] == "not_offered" and "'fault'" in error["message"]


def test_tokens_are_estimated_where_the_process_does_not_count(bench: WebBench) -> None:
    bench.model("uncounted", ranks(1, 2, 3, tokens=0))
    assert ask(bench, model="uncounted").get_json()["usage"] == {"total_tokens": 5, "prompt_tokens": 5}


def test_a_score_for_a_document_that_nobody_gave_is_an_error_of_the_backend(bench: WebBench) -> None:
    def strays(asked: Asked) -> Iterator[backend_pb2.RerankResult]:
        yield backend_pb2.RerankResult(results=[backend_pb2.DocumentResult(index=3)])

    bench.model("strays", strays)
    assert ask(bench, model="strays").status_code == 500


def test_rt_02_no_request_leaves_a_count_behind(bench: WebBench) -> None:
    replica = bench.model("counted", ranks(1, 2, 3))
    ask(bench, model="counted")
    bench.inference.scripts[replica.endpoint] = fails(grpc.StatusCode.INTERNAL)
    ask(bench, model="counted")
    assert bench.table.in_flight(replica.endpoint) == 0
