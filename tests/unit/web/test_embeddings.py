"""POST /v1/embeddings over fakes: every form of input, both encodings, and each refusal."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from protos import backend_pb2
from tests.fakes.inference import Asked, embeds, fails
from tests.fakes.routing import Replica
from tests.fakes.web import WebBench
from web.limits import INPUTS

pytestmark = pytest.mark.unit


def lengths(asked: Asked) -> list[float]:
    """A vector that tells what was asked: how long the text, how many tokens and their sum."""
    options = asked.options
    return [len(options.Embeddings) / 10, float(len(options.EmbeddingTokens)), float(sum(options.EmbeddingTokens))]


def ask(bench: WebBench, given: Any, **fields: Any) -> Any:
    return bench.post("/v1/embeddings", {"model": "m", "input": given, **fields})


def floats(text: str) -> list[float]:
    data = base64.b64decode(text)
    return list(struct.unpack(f"<{len(data) // 4}f", data))


@pytest.fixture
def bench(bench: WebBench) -> WebBench:
    bench.model("m", embeds(lengths))
    return bench


@pytest.mark.parametrize(
    ("given", "vectors"),
    [
        ("hello", [[0.5, 0, 0]]),
        (["hello"], [[0.5, 0, 0]]),
        (["a", "ab", "abc"], [[0.1, 0, 0], [0.2, 0, 0], [0.3, 0, 0]]),
        ([7, 8, 9], [[0, 3, 24]]),
        ([[7], [8, 9]], [[0, 1, 7], [0, 2, 17]]),
        (["ab", [5, 6]], [[0.2, 0, 0], [0, 2, 11]]),
        (" ", [[0.1, 0, 0]]),
    ],
)
def test_ap_02_each_form_of_input_gives_one_vector_for_each_input_in_order(
    bench: WebBench, given: Any, vectors: list[list[float]]
) -> None:
    body = ask(bench, given).get_json()
    assert (body["object"], body["model"]) == ("list", "m")
    assert [one["index"] for one in body["data"]] == list(range(len(vectors)))
    assert {one["object"] for one in body["data"]} == {"embedding"}
    for found, wanted in zip(body["data"], vectors, strict=True):
        assert found["embedding"] == pytest.approx(wanted)
    assert body["usage"] == {"prompt_tokens": 3 * len(vectors), "total_tokens": 3 * len(vectors)}


def test_base64_is_the_same_numbers_as_little_endian_float32(bench: WebBench) -> None:
    plain = ask(bench, ["a", [1, 2]]).get_json()["data"]
    encoded = ask(bench, ["a", [1, 2]], encoding_format="base64").get_json()["data"]
    assert [floats(one["embedding"]) for one in encoded] == [one["embedding"] for one in plain]
    assert floats("AACAPwAAAMA=") == [1.0, -2.0], "the test reads little endian"


def test_every_call_carries_the_replica_s_identity_and_the_request_s_id(bench: WebBench) -> None:
    response = ask(bench, ["a", "b"])
    asked = [options for _, options in bench.inference.asked]
    assert [options.ModelIdentity for options in asked] == ["identity-of-m"] * 2
    assert {options.CorrelationId for options in asked} == {response.headers["X-Request-Id"]}


def test_as_many_inputs_as_allowed_are_all_answered_in_order(bench: WebBench) -> None:
    given = ["x" * (1 + place % 50) for place in range(INPUTS.most)]
    data = ask(bench, given).get_json()["data"]
    assert [round(one["embedding"][0] * 10) for one in data] == [len(text) for text in given]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": 3}, "input"),
        ({"input": True}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", None]}, "input[1]"),
        ({"input": ["a", 3]}, "input[1]"),
        ({"input": [[]]}, "input[0]"),
        ({"input": [["a"]]}, "input[0]"),
        ({"input": [{"text": "a"}]}, "input[0]"),
        ({"input": [1, "a"]}, "input[1]"),
        ({"input": [1, -1]}, "input[1]"),
        ({"input": [1.5]}, "input[0]"),
        ({"input": [True]}, "input[0]"),
        ({"input": [2**31]}, "input[0]"),
        ({"input": [[1], [2, None]]}, "input[1][1]"),
        ({"input": ["a"] * (INPUTS.most + 1)}, "input"),
        ({"input": ["a"] * 10_000}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "encoding_format": 3}, "encoding_format"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": "3"}, "dimensions"),
        ({"input": "a", "dimensions": 2}, "dimensions"),
        ({"input": "a", "model": None}, "model"),
    ],
)
def test_a_wrong_field_is_named(bench: WebBench, fields: dict[str, Any], name: str) -> None:
    response = bench.post("/v1/embeddings", {"model": "m", **fields})
    assert response.status_code == 400
    error = response.get_json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_value", name)
    assert name in error["message"]


def test_too_many_inputs_are_refused_with_both_numbers_before_any_is_asked(bench: WebBench) -> None:
    message = ask(bench, ["a"] * 10_000).get_json()["error"]["message"]
    assert "10000" in message and str(INPUTS.most) in message
    assert bench.inference.asked == []


def test_dimensions_that_the_model_has_are_fine_and_others_are_told_them(bench: WebBench) -> None:
    assert ask(bench, "a", dimensions=3).status_code == 200
    assert "3" in ask(bench, "a", dimensions=2).get_json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/embeddings", {"model": "m"}),
        ("/v1/engines/m/embeddings", {}),
        ("/v1/engines/other/embeddings", {"model": "m"}),
    ],
)
def test_the_older_addresses_answer_too(bench: WebBench, path: str, fields: dict[str, str]) -> None:
    assert bench.post(path, {"input": "a", **fields}).get_json()["model"] == "m"


def test_the_model_in_the_path_may_hold_a_slash(bench: WebBench) -> None:
    bench.model("org/name", embeds(lengths))
    assert bench.post("/v1/engines/org/name/embeddings", {"input": "a"}).get_json()["model"] == "org/name"


def test_rt_12_an_unknown_model_is_404_and_never_a_load(bench: WebBench) -> None:
    response = ask(bench, "a", model="nobody")
    assert (response.status_code, response.get_json()["error"]["code"]) == (404, "model_not_found")
    assert bench.loads.requests == []


def test_a_model_without_a_replica_is_503_with_its_progress(bench: WebBench) -> None:
    bench.model("cold")
    response = ask(bench, ["a", "b", "c"], model="cold")
    assert (response.status_code, response.get_json()["error"]["code"]) == (503, "model_loading")
    assert len(bench.loads.requests) == 1


def test_a_backend_without_embeddings_is_a_400_that_names_model_and_backend(bench: WebBench) -> None:
    bench.model(
        "chatty", fails(grpc.StatusCode.UNIMPLEMENTED, "Exception calling application: Method not implemented!")
    )
    response = ask(bench, ["a", "b"], model="chatty")
    assert response.status_code == 400
    error = response.get_json()["error"]
    assert error["code"] == "not_offered"
    assert "'chatty'" in error["message"] and "'fault'" in error["message"]
    assert "application" not in error["message"]


@pytest.mark.parametrize("script", [embeds(lambda asked: []), None])
def test_an_answer_that_is_no_vector_for_a_text_is_an_error_of_the_backend(bench: WebBench, script: Any) -> None:
    def for_each_token(asked: Asked) -> Iterator[backend_pb2.EmbeddingResult]:
        yield backend_pb2.EmbeddingResult(embeddings=[1, 2], dim=1, layout=backend_pb2.EMBEDDING_LAYOUT_PER_TOKEN)

    bench.model("odd", script or for_each_token)
    response = ask(bench, "a", model="odd")
    assert (response.status_code, response.get_json()["error"]["code"]) == (500, "server_error")


def test_tokens_are_estimated_where_the_process_does_not_count(bench: WebBench) -> None:
    bench.model("uncounted", embeds(lengths, tokens=0))
    usage = ask(bench, ["12345678", [1, 2, 3]], model="uncounted").get_json()["usage"]
    assert usage == {"prompt_tokens": 5, "total_tokens": 5}


def test_rt_01_a_broken_connection_is_tried_once_elsewhere(bench: WebBench) -> None:
    good = Replica(model="two", process_instance="good", address="127.0.0.1:2", slot=1, identity="x")
    broken = bench.model("two")
    bench.inference.scripts[good.endpoint] = embeds(lengths)
    bench.route(broken, good)
    assert ask(bench, "a", model="two").status_code == 200
    assert bench.feed.refreshes == 1


def test_one_failure_ends_the_request_and_rt_02_leaves_no_count_behind(bench: WebBench) -> None:
    def second_fails(asked: Asked) -> Iterator[backend_pb2.EmbeddingResult]:
        yield from (
            fails(grpc.StatusCode.INTERNAL, "it broke") if asked.options.Embeddings == "b" else embeds(lengths)
        )(asked)

    replica = bench.model("breaks", second_fails)
    response = ask(bench, ["a", "b", *"c" * 100], model="breaks")
    assert (response.status_code, response.get_json()["error"]["code"]) == (500, "server_error")
    assert len(bench.inference.asked) < 20, "the rest is not asked any more"
    assert bench.table.in_flight(replica.endpoint) == 0
