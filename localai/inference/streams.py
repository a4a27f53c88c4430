"""What the replies of a model process say, in parts that no API dialect has coloured yet."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from protos import backend_pb2

#: Bytes of text that stand for about one token, where a process does not count.
_BYTES_PER_TOKEN = 4
_REASONS = frozenset({"stop", "length", "tool_calls"})


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A piece of one tool call: the first of an index carries id and name, all carry arguments to append."""

    index: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Part:
    """What one reply adds to the answer."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCallPart, ...] = ()
    logprobs: dict[str, Any] | None = None

    def __bool__(self) -> bool:
        return bool(self.content or self.reasoning or self.tool_calls or self.logprobs)


@dataclass(slots=True)
class Totals:
    """Counters of the answer so far; times are in milliseconds."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    timing_prompt_processing: float = 0.0
    timing_token_generation: float = 0.0


@dataclass(slots=True)
class AnswerReader:
    """Reads the replies of one call in order. Text may be cut inside a character, counters are cumulative."""

    totals: Totals = field(default_factory=Totals)
    called_tools: bool = False
    _bytes: int = 0
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")(errors="replace")
    )

    def read(self, reply: backend_pb2.Reply) -> Part:
        """The part that a reply adds; false when it adds nothing to show."""
        self._count(reply)
        logprobs = json.loads(reply.logprobs) if reply.logprobs else None
        deltas = reply.chat_deltas
        if not deltas:
            return Part(content=self._decoder.decode(reply.message), logprobs=logprobs)
        calls = tuple(_call(call) for delta in deltas for call in delta.tool_calls)
        self.called_tools = self.called_tools or bool(calls)
        return Part(
            content="".join(delta.content for delta in deltas),
            reasoning="".join(delta.reasoning_content for delta in deltas),
            tool_calls=calls,
            logprobs=logprobs,
        )

    def rest(self) -> Part:
        """What is left of a text that ended inside a character."""
        return Part(content=self._decoder.decode(b"", final=True))

    def finish_reason(self, told: str, token_limit: int) -> str:
        """Why the answer ended: the process's own word, else what the counters say."""
        if told == "length":
            return told
        if self.called_tools:
            return "tool_calls"
        if told in _REASONS:
            return told
        return "length" if token_limit and self.totals.completion_tokens >= token_limit else "stop"

    def _count(self, reply: backend_pb2.Reply) -> None:
        totals = self.totals
        self._bytes += len(reply.message)
        totals.completion_tokens = max(totals.completion_tokens, reply.tokens)
        totals.prompt_tokens = max(totals.prompt_tokens, reply.prompt_tokens)
        totals.timing_prompt_processing = reply.timing_prompt_processing or totals.timing_prompt_processing
        totals.timing_token_generation = reply.timing_token_generation or totals.timing_token_generation

    def usage(self) -> Totals:
        """The counters of the whole answer; an estimate where the process counts nothing."""
        if not self.totals.completion_tokens and self._bytes:
            self.totals.completion_tokens = _estimate(self._bytes)
        return self.totals


def estimated_tokens(text: str) -> int:
    """About how many tokens a text has, where a process does not count them."""
    return _estimate(len(text.encode()))


def _estimate(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)


def whole(parts: Iterable[Part]) -> Part:
    """One part that says what all of them say: the pieces of each tool call joined."""
    content, reasoning = [], []
    calls: dict[int, ToolCallPart] = {}
    logprobs: list[Any] = []
    for part in parts:
        content.append(part.content)
        reasoning.append(part.reasoning)
        logprobs.extend((part.logprobs or {}).get("content") or ())
        for call in part.tool_calls:
            calls[call.index] = _appended(calls.get(call.index), call)
    return Part(
        content="".join(content),
        reasoning="".join(reasoning),
        tool_calls=tuple(calls[index] for index in sorted(calls)),
        logprobs={"content": logprobs} if logprobs else None,
    )


def _call(call: backend_pb2.ToolCallDelta) -> ToolCallPart:
    return ToolCallPart(index=call.index, call_id=call.id, name=call.name, arguments=call.arguments)


def _appended(before: ToolCallPart | None, call: ToolCallPart) -> ToolCallPart:
    if before is None:
        return call
    return ToolCallPart(
        index=call.index,
        call_id=before.call_id or call.call_id,
        name=before.name or call.name,
        arguments=before.arguments + call.arguments,
    )
