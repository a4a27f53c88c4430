"""A call in the protocol's words becomes a request of the engine, and its chunks become replies."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest

from protos import backend_pb2 as pb
from tests.unit.backends.conftest import LoadModule

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def bodies(load_module: LoadModule) -> ModuleType:
    return load_module("llama-cpp", "bodies")


@pytest.fixture(scope="module")
def replies(load_module: LoadModule) -> ModuleType:
    return load_module("llama-cpp", "replies")


def chat(**fields: Any) -> pb.PredictOptions:
    return pb.PredictOptions(UseTokenizerTemplate=True, Messages=[pb.Message(role="user", content="Hi")], **fields)


def test_a_prompt_is_sent_as_it_is_and_messages_only_with_the_template(bodies: ModuleType) -> None:
    plain = bodies.body(pb.PredictOptions(Prompt="Once", Messages=[pb.Message(role="user", content="Hi")]))
    assert plain["prompt"] == "Once"
    assert "messages" not in plain
    templated = bodies.body(chat(Prompt="Once"))
    assert templated["messages"] == [{"role": "user", "content": "Hi"}]
    assert "prompt" not in templated


def test_zero_means_the_default_of_the_engine_except_where_zero_has_a_meaning(bodies: ModuleType) -> None:
    found = bodies.body(chat())
    assert (found["temperature"], found["min_p"], found["seed"]) == (0, 0, 0)
    assert not {"top_p", "top_k", "max_tokens", "repeat_penalty", "stop", "grammar"} & set(found)


def test_sampling_values_have_the_names_of_the_engine(bodies: ModuleType) -> None:
    found = bodies.body(chat(TopP=0.5, TopK=3, Tokens=7, Penalty=1.5, Repeat=64, StopPrompts=["a", "b"], Seed=-1))
    wanted = {"top_p": 0.5, "top_k": 3, "max_tokens": 7, "repeat_penalty": 1.5, "repeat_last_n": 64, "seed": -1}
    assert found | wanted | {"stop": ["a", "b"]} == found


def test_negative_values_reach_the_engine(bodies: ModuleType) -> None:
    found = bodies.body(chat(TopK=-1, Repeat=-1, NKeep=-1))
    assert (found["top_k"], found["repeat_last_n"], found["n_keep"]) == (-1, -1, -1)


def test_json_texts_arrive_as_values(bodies: ModuleType) -> None:
    schema = {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}
    tools = [{"type": "function", "function": {"name": "f"}}]
    metadata = {"response_format": json.dumps(schema), "enable_thinking": "false", "chat_template_kwargs": '{"a": 1}'}
    found = bodies.body(chat(Tools=json.dumps(tools), ToolChoice="auto", Metadata=metadata, LogitBias='{"5": -100}'))
    assert (found["response_format"], found["tools"], found["tool_choice"]) == (schema, tools, "auto")
    assert found["chat_template_kwargs"] == {"enable_thinking": False, "a": 1}
    assert found["logit_bias"] == {"5": -100}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"Tools": "{"}, "Tools"),
        ({"LogitBias": "x"}, "LogitBias"),
        ({"Metadata": {"response_format": "x"}}, "Metadata.response_format"),
        ({"Metadata": {"chat_template_kwargs": "x"}}, "Metadata.chat_template_kwargs"),
    ],
)
def test_a_text_that_is_no_json_is_refused_with_its_field(
    bodies: ModuleType, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(bodies.BadRequest, match=said):
        bodies.body(chat(**fields))


def test_a_message_keeps_its_calls_and_ids(bodies: ModuleType) -> None:
    message = pb.Message(role="tool", content="42", tool_call_id="c1", name="f", tool_calls='[{"id": "c1"}]')
    found = bodies.body(pb.PredictOptions(UseTokenizerTemplate=True, Messages=[message]))
    assert found["messages"] == [
        {"role": "tool", "content": "42", "name": "f", "tool_call_id": "c1", "tool_calls": [{"id": "c1"}]}
    ]


TIMINGS = {"cache_n": 20, "prompt_n": 7, "prompt_ms": 1.5, "predicted_n": 3, "predicted_ms": 9.0}


def test_a_chunk_of_text_counts_what_came_so_far(replies: ModuleType) -> None:
    reply = replies.reply({"choices": [{"delta": {"content": " é"}}], "timings": TIMINGS})
    assert reply.message == " é".encode()
    assert (reply.tokens, reply.prompt_tokens) == (3, 27)
    assert reply.chat_deltas[0].content == " é"


def test_a_chunk_without_news_is_no_reply(replies: ModuleType) -> None:
    progress = {"choices": [{"delta": {"role": "assistant", "content": None}}], "prompt_progress": {}}
    assert replies.reply(progress) is None
    assert replies.reply({"choices": [{"text": "", "finish_reason": None}], "timings": TIMINGS}) is None


def test_the_chunk_with_usage_has_the_final_counts(replies: ModuleType) -> None:
    reply = replies.reply({"choices": [], "usage": {"completion_tokens": 8, "prompt_tokens": 27}, "timings": TIMINGS})
    assert (reply.message, reply.tokens, reply.prompt_tokens) == (b"", 8, 27)


def test_why_an_answer_ended_is_in_one_chunk_only(replies: ModuleType) -> None:
    assert replies.finish_reason({"choices": [{"finish_reason": "length", "delta": {}}]}) == "length"
    assert replies.finish_reason({"choices": [{"finish_reason": None}]}) == ""
    assert replies.finish_reason({"choices": []}) == ""


def test_reasoning_and_tool_calls_travel_as_deltas(replies: ModuleType) -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{"}}
    reply = replies.reply({"choices": [{"delta": {"reasoning_content": "hm", "tool_calls": [call]}}]})
    (delta,) = reply.chat_deltas
    assert (reply.message, delta.reasoning_content) == (b"", "hm")
    assert (delta.tool_calls[0].id, delta.tool_calls[0].name, delta.tool_calls[0].arguments) == ("c1", "f", "{")


def test_parts_join_to_the_reply_of_a_call_that_does_not_stream(replies: ModuleType) -> None:
    parts = [
        pb.Reply(message=b"a", tokens=1, prompt_tokens=5, logprobs=b'{"content": [{"token": "a"}]}'),
        pb.Reply(message=b"b", tokens=2, prompt_tokens=5, logprobs=b'{"content": [{"token": "b"}]}'),
        pb.Reply(tokens=2, prompt_tokens=5),
    ]
    whole = replies.joined(parts)
    assert (whole.message, whole.tokens, whole.prompt_tokens) == (b"ab", 2, 5)
    assert json.loads(whole.logprobs) == {"content": [{"token": "a"}, {"token": "b"}]}
    assert replies.joined([]) == pb.Reply()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"Grammar": "root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000}, "Grammar"),
        ({"Grammar": "root ::= " + '"a"? ' * 33}, "33 optional parts in a row; accepted: at most 32"),
        ({"Repeat": 2**31 - 1}, "Repeat"),
        ({"NKeep": 2**31 - 1}, "NKeep"),
        ({"TopLogprobs": 50_000}, "TopLogprobs"),
        ({"Metadata": {"response_format": json.dumps({"schema": {"enum": list(range(100_000))}})}}, "response_format"),
        ({"Tools": json.dumps([{"function": {"parameters": {"enum": list(range(1001))}}}])}, "Tools"),
        ({"Tools": "[" * 100_000}, "Tools"),
        ({"Tools": "[3]"}, "Tools"),
    ],
)
def test_a_request_that_costs_the_engine_too_much_is_refused(
    bodies: ModuleType, fields: dict[str, Any], name: str
) -> None:
    with pytest.raises(bodies.BadRequest, match=name):
        bodies.body(chat(**fields))
