"""How an answer looks in the chat completions API, whole and in chunks.

The constant part of a chunk is built once for each request; a chunk of text costs one JSON string.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from localai.ids import new_id
from localai.inference.streams import Part, ToolCallPart, Totals

DONE = b"data: [DONE]\n\n"
#: The end of an event that only adds text: by far the most of them.
_GOES_ON = '},"finish_reason":null}]}\n\n'
#: One for all: a call of `json.dumps` with such options makes an encoder each time.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What every object of one answer begins with."""

    id: str
    created: int
    model: str

    def of(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def usage_of(totals: Totals, *, timings: bool) -> dict[str, Any]:
    """The `usage` object; `timings` in milliseconds for callers that ask by header."""
    found: dict[str, Any] = {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.completion_tokens,
        "total_tokens": totals.prompt_tokens + totals.completion_tokens,
    }
    if timings:
        found["timing_prompt_processing"] = totals.timing_prompt_processing
        found["timing_token_generation"] = totals.timing_token_generation
    return found


def completion(head: Head, answer: Part, finish_reason: str, usage: dict[str, Any]) -> dict[str, Any]:
    """The whole answer."""
    # As in the original API: no text beside a call is null, no text and no call is an empty text.
    message: dict[str, Any] = {"role": "assistant", "content": answer.content or (None if answer.tool_calls else "")}
    if answer.reasoning:
        message["reasoning"] = answer.reasoning
    if answer.tool_calls:
        message["tool_calls"] = [
            {
                "index": place,
                "id": call.call_id or new_call_id(),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for place, call in enumerate(answer.tool_calls)
        ]
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish_reason}
    choice["logprobs"] = answer.logprobs
    return {**head.of("chat.completion"), "choices": [choice], "usage": usage}


class Chunks:
    """The events of one streamed answer, in order: a role, parts, a finish reason, perhaps usage, the end."""

    def __init__(self, head: Head) -> None:
        self._head = head.of("chat.completion.chunk")
        text = _encode(self._head)[:-1] + ',"choices":[{"index":0,"delta":'
        self._before = b"data: " + text.encode()
        self._calls: dict[int, str] = {}

    def role(self) -> bytes:
        """The first event."""
        return self._event('{"role":"assistant","content":""}')

    def part(self, part: Part) -> bytes:
        """One part of the answer."""
        if part.content and not part.reasoning and not part.tool_calls and part.logprobs is None:
            return self._before + ('{"content":' + encode_basestring(part.content) + _GOES_ON).encode()
        delta: dict[str, Any] = {}
        if part.content:
            delta["content"] = part.content
        if part.reasoning:
            delta["reasoning"] = part.reasoning
        if part.tool_calls:
            delta["tool_calls"] = [self._call(call) for call in part.tool_calls]
        return self._event(_encode(delta), logprobs=part.logprobs)

    def finish(self, reason: str) -> bytes:
        """The last event of the choice."""
        return self._event("{}", finish_reason=reason)

    def usage(self, usage: dict[str, Any]) -> bytes:
        """The counters, in an event without a choice."""
        return sse({**self._head, "choices": [], "usage": usage})

    def _event(self, delta: str, *, finish_reason: str | None = None, logprobs: dict[str, Any] | None = None) -> bytes:
        tail = ',"logprobs":' + _encode(logprobs) if logprobs is not None else ""
        tail += f',"finish_reason":{_encode(finish_reason)}}}]}}\n\n'
        return self._before + (delta + tail).encode()

    def _call(self, call: ToolCallPart) -> dict[str, Any]:
        """A piece of a tool call: id, type and name in the first of its index only."""
        function: dict[str, Any] = {"arguments": call.arguments}
        found: dict[str, Any] = {"index": call.index, "function": function}
        if call.index not in self._calls:
            self._calls[call.index] = call.call_id or new_call_id()
            found |= {"id": self._calls[call.index], "type": "function"}
            function["name"] = call.name
        return found


def sse(value: Any) -> bytes:
    """One server-sent event that holds a JSON value."""
    return b"data: " + _encode(value).encode() + b"\n\n"


def new_call_id() -> str:
    """An id for a tool call that the process left nameless."""
    return "call_" + new_id().replace("-", "")[:24]
