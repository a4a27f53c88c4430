"""What a chat request may hold: each wrong field is named, nothing that changes the answer is ignored."""

from __future__ import annotations

from typing import Any

import pytest

from localai.errors import BadInput
from web.schemas.chat import read_chat

pytestmark = pytest.mark.unit

HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "f"}}

LARGE_SCHEMA = {"enum": [f"value {number}" for number in range(100_000)]}
LARGE_FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": LARGE_SCHEMA}}


def read(**fields: Any) -> Any:
    return read_chat({"model": "m", "messages": HELLO, **fields}, "id").request


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"model": None}, "model"),
        ({"model": 7}, "model"),
        ({"model": ""}, "model"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [3]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [*HELLO, {"role": "user", "content": 3}]}, "messages[1].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": float("inf")}, "max_tokens"),
        ({"max_tokens": 2**31}, "max_tokens"),
        ({"seed": 2**40}, "seed"),
        ({"repeat_last_n": 65_537}, "repeat_last_n"),
        ({"n_keep": 65_537}, "n_keep"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"grammar": "root ::= " + "(" * 50_000 + '"a"' + ")" * 50_000}, "grammar"),
        ({"grammar": "root ::= " + "(" * 257}, "grammar"),
        ({"response_format": LARGE_FORMAT}, "response_format"),
        ({"response_format": {"type": "json_object", "schema": LARGE_SCHEMA}}, "response_format"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": LARGE_SCHEMA}}]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f" * 257}}]}, "tools[0].function.name"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"stop": 3}, "stop"),
        ({"stop": ["a", 3]}, "stop"),
        ({"n": 2}, "n"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": "auto"}, "function_call"),
        ({"modalities": ["text", "audio"]}, "modalities[1]"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"backend": "vllm"}, "backend"),
        ({"metadata": {"mcp_servers": "a"}}, "metadata.mcp_servers"),
        ({"metadata": {"a": 1}}, "metadata.a.value"),
        ({"logit_bias": {"5": "much"}}, "logit_bias.5.value"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0]"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"function": {"name": "f"}}}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": 3}, "tool_choice"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(**fields)
    assert caught.value.field == name
    assert name in caught.value.message


@pytest.mark.parametrize("missing", ["model", "messages"])
def test_a_missing_field_is_named(missing: str) -> None:
    body = {"model": "m", "messages": HELLO}
    del body[missing]
    with pytest.raises(BadInput) as caught:
        read_chat(body, "id")
    assert caught.value.field == missing


def test_the_refusal_holds_the_value_and_what_would_be_accepted() -> None:
    with pytest.raises(BadInput) as caught:
        read(temperature=3)
    assert "3" in caught.value.message and "2" in caught.value.message


@pytest.mark.parametrize(("field", "value"), [("max_tokens", 5.0), ("seed", 7.0), ("top_k", 40.0), ("n", 1.0)])
def test_ap_05_integral_floats_are_whole_numbers(field: str, value: float) -> None:
    sampling = read(**{field: value}).sampling
    if field != "n":
        assert getattr(sampling, field) == int(value)


def test_null_is_the_same_as_left_out() -> None:
    names = ("temperature", "top_p", "max_tokens", "stop", "seed", "tools", "tool_choice", "response_format", "n")
    request = read(**dict.fromkeys(names))
    assert request == read()


def test_the_newer_name_of_the_token_limit_wins() -> None:
    assert read(max_tokens=5, max_completion_tokens=9).sampling.max_tokens == 9


def test_text_parts_are_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read(messages=[{"role": "user", "content": parts}]).messages[0].content == "ab"


def test_an_assistant_message_may_have_calls_and_no_content() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [*HELLO, {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert read(messages=messages).messages[1].tool_calls == [call]


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_accepted_under_both_names(name: str) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "x", name: "because"}]
    assert read(messages=messages).messages[1].reasoning == "because"


@pytest.mark.parametrize(
    ("choice", "tools", "passed"),
    [
        (None, 1, None),
        ("auto", 1, "auto"),
        ("required", 1, "required"),
        ("none", 0, None),
        ({"type": "function", "function": {"name": "f"}}, 1, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_ap_04_every_form_of_tool_choice(choice: Any, tools: int, passed: Any) -> None:
    request = read(tools=[TOOL], tool_choice=choice)
    assert (len(request.tools), request.tool_choice) == (tools, passed)


def test_tool_choice_without_tools_changes_nothing() -> None:
    assert read(tool_choice="auto").tool_choice is None


def test_a_text_format_is_no_format() -> None:
    assert read(response_format={"type": "text"}).response_format is None


def test_stop_is_one_text_or_several() -> None:
    assert read(stop="a").stop == ("a",)
    assert read(stop=["a", "b"]).stop == ("a", "b")


def test_a_client_cannot_set_what_the_server_passes_in_the_metadata() -> None:
    request = read(metadata={"chat_template_kwargs": "{}", "response_format": "{}", "own": "x"}, reasoning_effort="low")
    assert request.metadata == {"own": "x", "reasoning_effort": "low"}


def test_fields_of_other_servers_are_left_out() -> None:
    assert read(num_ctx=2_000_000_000, user="me", store=True) == read()


def test_a_schema_that_is_too_large_is_refused_in_a_short_text_with_the_bound() -> None:
    with pytest.raises(BadInput, match="at most 1000") as caught:
        read(response_format=LARGE_FORMAT)
    assert len(caught.value.message) < 300
