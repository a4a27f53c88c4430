"""POST /v1/completions over fakes: the raw prompt, several prompts, streams whose every event counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from protos import backend_pb2
from tests.fakes.inference import Asked, fails, says
from tests.fakes.web import WebBench
from tests.unit.web.test_chat import chunks_of

pytestmark = pytest.mark.unit


def ask(bench: WebBench, **fields: Any) -> Any:
    return bench.post("/v1/completions", {"model": "m", "prompt": "Once upon", **fields})


def echoes(asked: Asked) -> Iterator[backend_pb2.Reply]:
    """Says its prompt in two pieces."""
    prompt = asked.options.Prompt
    yield from says(f"<{prompt}", ">", prompt_tokens=len(prompt))(asked)


@pytest.fixture
def bench(bench: WebBench) -> WebBench:
    bench.model("m", echoes)
    return bench


def test_ap_02_an_answer_has_the_original_api_s_shape(bench: WebBench) -> None:
    body = ask(bench).get_json()
    assert body.pop("id") and body.pop("created")
    assert body == {
        "object": "text_completion",
        "model": "m",
        "choices": [{"index": 0, "text": "<Once upon>", "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    }


def test_the_prompt_goes_as_it_is_without_template_and_system_prompt(bench: WebBench) -> None:
    bench.model("instructed", echoes, system_prompt="Be brief.", template="{use_tokenizer_template: true}")
    ask(bench, model="instructed", prompt="a\nb")
    (_, options), *_ = bench.inference.asked
    assert (options.Prompt, options.UseTokenizerTemplate, list(options.Messages)) == ("a\nb", False, [])


def test_sampling_stop_and_grammar_reach_the_process(bench: WebBench) -> None:
    fields = {"temperature": 0.25, "max_tokens": 7, "stop": ["\n"], "grammar": "root ::= x", "logit_bias": {"5": 1}}
    ask(bench, **fields)
    (_, options), *_ = bench.inference.asked
    assert (options.Temperature, options.Tokens, list(options.StopPrompts)) == (0.25, 7, ["\n"])
    assert (options.Grammar, options.LogitBias, options.ModelIdentity) == ("root ::= x", '{"5":1.0}', "identity-of-m")


def test_several_prompts_are_several_choices_in_order_and_one_sum(bench: WebBench) -> None:
    prompts = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"]
    body = ask(bench, prompt=prompts).get_json()
    assert [choice["text"] for choice in body["choices"]] == [f"<{prompt}>" for prompt in prompts]
    assert [choice["index"] for choice in body["choices"]] == list(range(6))
    assert body["usage"] == {"prompt_tokens": 21, "completion_tokens": 12, "total_tokens": 33}


def test_every_event_of_a_stream_carries_the_usage_so_far(bench: WebBench) -> None:
    response = ask(bench, stream=True)
    assert response.mimetype == "text/event-stream"
    chunks = chunks_of(response)
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["<Once upon", ">", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 2]
    assert chunks[-1]["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def test_several_prompts_are_streamed_one_after_another(bench: WebBench) -> None:
    replica = bench.model("several", echoes)
    chunks = chunks_of(ask(bench, model="several", prompt=["a", "bb"], stream=True))
    texts = ["", ""]
    for chunk in chunks:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == ["<a>", "<bb>"]
    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 0, 0, 1, 1, 1]
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert bench.table.in_flight(replica.endpoint) == 0


def test_include_usage_adds_an_event_without_a_choice(bench: WebBench) -> None:
    chunks = chunks_of(ask(bench, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["total_tokens"] == 11


@pytest.mark.parametrize("stream", [False, True])
def test_ap_11_a_spent_token_limit_is_the_reason_length(bench: WebBench, stream: bool) -> None:
    response = ask(bench, stream=stream, max_tokens=2)
    choice = chunks_of(response)[-1]["choices"][0] if stream else response.get_json()["choices"][0]
    assert choice["finish_reason"] == "length"


def test_a_character_cut_between_two_replies_is_one_character(bench: WebBench) -> None:
    def halves(asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield backend_pb2.Reply(message="é".encode()[:1], tokens=1)
        yield backend_pb2.Reply(message="é".encode()[1:], tokens=2)

    bench.model("halves", halves)
    chunks = chunks_of(ask(bench, model="halves", stream=True))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "é"


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": 3}, "prompt"),
        ({"prompt": ["a", ""]}, "prompt[1]"),
        ({"prompt": [1, 2, 3]}, "prompt[0]"),
        ({"prompt": [[1, 2, 3]]}, "prompt[0]"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"echo": True}, "echo"),
        ({"suffix": "the end"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"n": 2}, "n"),
        ({"logprobs": 0}, "logprobs"),
        ({"logprobs": 5}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"backend": "vllm"}, "backend"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"stop": [3]}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"model": ""}, "model"),
    ],
)
def test_a_wrong_field_is_named(bench: WebBench, fields: dict[str, Any], name: str) -> None:
    response = ask(bench, **fields)
    assert response.status_code == 400
    assert response.get_json()["error"]["param"] == name
    assert name in response.get_json()["error"]["message"]
    assert bench.inference.asked == []


def test_values_that_change_nothing_are_taken(bench: WebBench) -> None:
    fields = {"echo": False, "suffix": None, "best_of": 1, "n": 1, "logprobs": None, "user": "somebody", "stop": None}
    assert ask(bench, **fields).status_code == 200


@pytest.mark.parametrize(("path", "fields"), [("/completions", {"model": "m"}), ("/v1/engines/m/completions", {})])
def test_the_older_addresses_answer_too(bench: WebBench, path: str, fields: dict[str, str]) -> None:
    assert bench.post(path, {"prompt": "a", **fields}).get_json()["choices"][0]["text"] == "<a>"


@pytest.mark.parametrize("stream", [False, True])
def test_a_backend_without_text_is_a_400_that_names_it(bench: WebBench, stream: bool) -> None:
    bench.model("encoder", fails(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!"))
    response = ask(bench, model="encoder", stream=stream)
    assert response.status_code == 400
    assert response.get_json()["error"]["code"] == "not_offered"


def test_a_failure_in_a_later_prompt_ends_the_stream_with_an_error(bench: WebBench) -> None:
    def second_fails(asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield from (fails(grpc.StatusCode.INTERNAL, "it broke") if asked.options.Prompt == "b" else echoes)(asked)

    replica = bench.model("breaks", second_fails)
    chunks = chunks_of(ask(bench, model="breaks", prompt=["a", "b", "c"], stream=True))
    assert chunks[-1]["error"]["code"] == "server_error" and "it broke" in chunks[-1]["error"]["message"]
    assert [options.Prompt for _, options in bench.inference.asked] == ["a", "b"]
    assert bench.table.in_flight(replica.endpoint) == 0


def test_c19_a_stream_that_nobody_began_to_read_is_counted_down(bench: WebBench) -> None:
    replica = bench.model("unread", echoes)
    response = bench.client.post(
        "/v1/completions",
        json={"model": "unread", "prompt": ["a", "b"], "stream": True},
        headers=bench.key(),
        buffered=False,
    )
    assert bench.table.in_flight(replica.endpoint) == 1
    response.close()
    assert bench.table.in_flight(replica.endpoint) == 0
