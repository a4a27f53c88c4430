"""What a chat completion request may hold: a parameter is used, refused with a reason, or known to change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, pre_load, validate

from localai.errors import BadInput
from localai.inference import bounds
from localai.inference.convert import ChatRequest, Message
from web import limits
from web.schemas.fields import Entries, Items, Number, Switch, Whole, load, text, whole
from web.schemas.sampling import SamplingFields, check_schema, grammar, model_name, sampling_of, stop_of

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
#: Characters of the name of a tool, which becomes part of a grammar.
_NAME_LIMIT = 256
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")

#: Parameters that would change the answer and are not offered, with what to do instead.
_NOT_OFFERED = {
    "functions": "use `tools`",
    "function_call": "use `tool_choice`",
    "grammar_json_functions": "use `tools`, or `grammar`",
    "audio": "only text is answered",
    "web_search_options": "the server searches nothing",
    "backend": "a model's config names its backend",
}


class _Message(Schema):
    role = fields.String(required=True, validate=validate.OneOf(_ROLES))
    content = fields.Raw(allow_none=True, load_default=None)
    name = text(256)
    tool_call_id = text(256)
    reasoning = text()
    reasoning_content = text()
    tool_calls = Items(fields.Dict(), limits.TOOL_CALLS, allow_none=True, load_default=None)


class _StreamOptions(Schema):
    include_usage = Switch(load_default=False)


class _Chat(SamplingFields):
    model = model_name()
    messages = Items(fields.Nested(_Message, unknown=EXCLUDE), limits.MESSAGES, least=1, required=True)
    stream = Switch(allow_none=True, load_default=False)
    stream_options = fields.Nested(_StreamOptions, unknown=EXCLUDE, allow_none=True, load_default=None)
    n = Whole(allow_none=True, load_default=1)
    max_completion_tokens = whole(0)

    tools = Items(fields.Dict(), limits.TOOLS, allow_none=True, load_default=None)
    tool_choice = fields.Raw(allow_none=True, load_default=None)
    parallel_tool_calls = Switch(allow_none=True, load_default=None)
    response_format = fields.Dict(allow_none=True, load_default=None)
    grammar = grammar()
    logprobs = Switch(allow_none=True, load_default=False)
    top_logprobs = whole(0, bounds.TOP_LOGPROBS)
    logit_bias = Entries(Number(), limits.LOGIT_BIAS, allow_none=True, load_default=None)
    modalities = Items(
        fields.String(validate=validate.Equal("text")), limits.MODALITIES, allow_none=True, load_default=None
    )
    reasoning_effort = fields.String(validate=validate.OneOf(_EFFORTS), allow_none=True, load_default=None)
    metadata = Entries(fields.String(), limits.METADATA, allow_none=True, load_default=None)

    @pre_load
    def refuse_what_is_not_offered(self, body: Mapping[str, Any], **_: Any) -> Mapping[str, Any]:
        for name, instead in _NOT_OFFERED.items():
            if body.get(name) not in (None, [], {}):
                raise ValidationError(f"not offered: {instead}", name)
        return body


_SCHEMA = _Chat()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCall:
    """One request for a chat completion, checked."""

    model: str
    request: ChatRequest
    stream: bool
    include_usage: bool


def read_chat(body: Mapping[str, Any], correlation_id: str) -> ChatCall:
    """The request in a body. Raises BadInput that names the field, the value and what would be accepted."""
    data = load(_SCHEMA, body)
    if data["n"] not in (None, 1):
        raise BadInput("n", data["n"], "1: a model answers once for each request")
    tools, choice = _tools(data["tools"] or (), data["tool_choice"])
    limit = data["max_tokens"] if data["max_completion_tokens"] is None else data["max_completion_tokens"]
    request = ChatRequest(
        messages=tuple(_message(place, message) for place, message in enumerate(data["messages"])),
        sampling=sampling_of(data, limit),
        stop=stop_of(data),
        tools=tools,
        tool_choice=choice,
        response_format=_response_format(data["response_format"]),
        grammar=data["grammar"] or "",
        logprobs=bool(data["logprobs"]),
        top_logprobs=data["top_logprobs"] or 0,
        logit_bias=data["logit_bias"] or {},
        metadata=_metadata(data),
        correlation_id=correlation_id,
    )
    usage = bool((data["stream_options"] or {}).get("include_usage"))
    return ChatCall(model=data["model"], request=request, stream=bool(data["stream"]), include_usage=usage)


def _message(place: int, message: Mapping[str, Any]) -> Message:
    return Message(
        role=message["role"],
        content=_content(f"messages[{place}].content", message["content"]),
        name=message["name"] or "",
        tool_call_id=message["tool_call_id"] or "",
        reasoning=message["reasoning"] or message["reasoning_content"] or "",
        tool_calls=message["tool_calls"] or (),
    )


def _content(name: str, content: Any) -> str:
    """The text of a message: one text, or text parts that belong together."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise BadInput(name, content, "a text, or a list of text parts")
    if len(content) > limits.PARTS.most:
        raise BadInput(name, len(content), f"a text, or at most {limits.PARTS.most} text parts")
    texts = []
    for place, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise BadInput(f"{name}[{place}]", part, 'a part such as {"type": "text", "text": "..."}')
        if part["type"] != "text":
            raise BadInput(f"{name}[{place}].type", part["type"], "text: images, audio and video are not read yet")
        if not isinstance(part.get("text"), str):
            raise BadInput(f"{name}[{place}].text", part.get("text"), "a text")
        texts.append(part["text"])
    return "".join(texts)


def _tools(tools: Sequence[Mapping[str, Any]], choice: Any) -> tuple[Sequence[Mapping[str, Any]], Any]:
    """The tools to offer and the choice among them; none where the choice is `none`."""
    names = []
    for place, tool in enumerate(tools):
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, dict):
            raise BadInput(f"tools[{place}]", tool, 'a tool such as {"type": "function", "function": {"name": "..."}}')
        if not isinstance(function.get("name"), str) or not function["name"]:
            raise BadInput(f"tools[{place}].function.name", function.get("name"), "the name of the function")
        if len(function["name"]) > _NAME_LIMIT:
            raise BadInput(f"tools[{place}].function.name", function["name"], f"at most {_NAME_LIMIT} characters")
        names.append(function["name"])
    # One grammar of the engine holds all of them.
    check_schema("tools", [tool["function"].get("parameters") for tool in tools])
    if choice in (None, "auto", "none", "required"):
        if choice == "required" and not tools:
            raise BadInput("tool_choice", choice, "auto or none where `tools` is empty")
        return ((), None) if choice == "none" else (tools, choice if tools else None)
    named = choice.get("function", {}).get("name") if _is_named(choice) else None
    if named not in names:
        accepted = 'auto, none, required, or {"type": "function", "function": {"name": <one of `tools`>}}'
        raise BadInput("tool_choice", choice, accepted)
    return tools, choice


def _is_named(choice: Any) -> bool:
    return isinstance(choice, dict) and choice.get("type") == "function" and isinstance(choice.get("function"), dict)


def _response_format(wanted: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if wanted is None or wanted.get("type") == "text":
        return None
    check_schema("response_format", wanted)  # the engine looks for a schema under other names too
    if wanted.get("type") == "json_object":
        return wanted
    if wanted.get("type") != "json_schema":
        raise BadInput("response_format.type", wanted.get("type"), "text, json_object or json_schema")
    schema = wanted.get("json_schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("schema"), dict):
        raise BadInput("response_format.json_schema.schema", schema, "a JSON schema")
    return wanted


def _metadata(data: Mapping[str, Any]) -> Mapping[str, str]:
    """What travels to the backend beside the protocol's own fields."""
    found: dict[str, str] = dict(data["metadata"] or {})
    if "mcp_servers" in found:
        raise BadInput("metadata.mcp_servers", found["mcp_servers"], "no value: tool servers are not offered yet")
    for name in ("chat_template_kwargs", "response_format"):
        found.pop(name, None)
    if data["reasoning_effort"] is not None:
        found["reasoning_effort"] = data["reasoning_effort"]
    if data["parallel_tool_calls"] is not None:
        found["parallel_tool_calls"] = "true" if data["parallel_tool_calls"] else "false"
    return found
