"""Which request body of llama.cpp's server a PredictOptions stands for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import backend_pb2
import bounds
from optional_runs import longest_optional_run

#: Fields that are sent unless they are zero: zero in proto3 is also "not set", which means the engine's default. A
#: caller that means zero sends a value with the same effect, such as a tiny TopP. Negative values have a meaning.
_UNLESS_ZERO = {
    "TopP": "top_p",
    "TopK": "top_k",
    "TypicalP": "typical_p",
    "Penalty": "repeat_penalty",
    "Repeat": "repeat_last_n",
    "NKeep": "n_keep",
    "Mirostat": "mirostat",
    "MirostatTAU": "mirostat_tau",
    "MirostatETA": "mirostat_eta",
    "Tokens": "max_tokens",  # zero: as many as fit into the context
}


class BadRequest(ValueError):
    """The request cannot be used; the text names the field."""


def body(options: backend_pb2.PredictOptions) -> dict[str, Any]:
    """The streamed request with counts in each chunk. Raises BadRequest."""
    found: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_usage": True},
        # Counts of tokens so far in each chunk.
        "timings_per_token": True,
        # A chunk after each batch of the prompt: the only moments at which a long prompt can be cancelled.
        "return_progress": True,
        "cache_prompt": True,
        "temperature": options.Temperature,
        "min_p": options.MinP,
        "seed": options.Seed,
        "frequency_penalty": options.FrequencyPenalty,
        "presence_penalty": options.PresencePenalty,
        "ignore_eos": options.IgnoreEOS,
    }
    _check(options)
    found |= {key: getattr(options, name) for name, key in _UNLESS_ZERO.items() if getattr(options, name)}
    if options.StopPrompts:
        found["stop"] = list(options.StopPrompts)
    if options.Grammar:
        found["grammar"] = options.Grammar
    if options.LogitBias:
        found["logit_bias"] = _json("LogitBias", options.LogitBias)
    if options.UseTokenizerTemplate:
        return found | _chat(options)
    if options.Logprobs:
        found["logprobs"] = max(options.TopLogprobs, 1)
    return found | {"prompt": options.Prompt}


def _chat(options: backend_pb2.PredictOptions) -> dict[str, Any]:
    found: dict[str, Any] = {"messages": [_message(message) for message in options.Messages]}
    if options.Tools:
        found["tools"] = _json("Tools", options.Tools)
        _bounded("Tools", bounds.check_schema, _parameters(found["tools"]))
    if options.ToolChoice:
        found["tool_choice"] = _maybe_json(options.ToolChoice)
    if options.Metadata.get("response_format"):
        found["response_format"] = _json("Metadata.response_format", options.Metadata["response_format"])
        _bounded("Metadata.response_format", bounds.check_schema, found["response_format"])
    if options.Logprobs:
        found |= {"logprobs": True, "top_logprobs": options.TopLogprobs}
    template = _template_arguments(options)
    return found | ({"chat_template_kwargs": template} if template else {})


def _check(options: backend_pb2.PredictOptions) -> None:
    """Raises BadRequest for values that cost the engine too much; callers other than our web process send them too."""
    _bounded("Grammar", bounds.check_grammar, options.Grammar)
    optional = longest_optional_run(options.Grammar)
    if optional > bounds.GRAMMAR_OPTIONAL:
        raise BadRequest(f"Grammar: {optional} optional parts in a row; accepted: at most {bounds.GRAMMAR_OPTIONAL}")
    for name, most in (
        ("Repeat", bounds.LAST_TOKENS),
        ("NKeep", bounds.LAST_TOKENS),
        ("TopLogprobs", bounds.TOP_LOGPROBS),
    ):
        if getattr(options, name) > most:
            raise BadRequest(f"{name}: {getattr(options, name)} cannot be used; accepted: at most {most}")


def _parameters(tools: Any) -> list[Any]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise BadRequest("Tools is no list of objects")
    functions = [tool.get("function") for tool in tools]
    return [function.get("parameters") for function in functions if isinstance(function, dict)]


def _bounded(field: str, check: Callable[[Any], None], value: Any) -> None:
    try:
        check(value)
    except bounds.OutOfBounds as error:
        raise BadRequest(f"{field}: {error}") from None


def _message(message: backend_pb2.Message) -> dict[str, Any]:
    found: dict[str, Any] = {"role": message.role, "content": message.content}
    for name in ("name", "tool_call_id", "reasoning_content"):
        if getattr(message, name):
            found[name] = getattr(message, name)
    if message.tool_calls:
        found["tool_calls"] = _json("Messages.tool_calls", message.tool_calls)
    return found


def _template_arguments(options: backend_pb2.PredictOptions) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "enable_thinking" in options.Metadata:
        found["enable_thinking"] = options.Metadata["enable_thinking"] == "true"
    if options.Metadata.get("reasoning_effort"):
        found["reasoning_effort"] = options.Metadata["reasoning_effort"]
    if options.Metadata.get("chat_template_kwargs"):
        found |= _json("Metadata.chat_template_kwargs", options.Metadata["chat_template_kwargs"])
    return found


def _json(field: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest(f"{field} is not JSON") from None


def _maybe_json(text: str) -> Any:
    """``auto`` and ``required`` come bare, an object comes as JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
