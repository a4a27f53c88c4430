"""What a chunk of llama.cpp's server says, in the words of the protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import backend_pb2

Reply = backend_pb2.Reply


def reply(chunk: dict[str, Any]) -> Reply | None:
    """The reply of one chunk, or None for a chunk without text, call or final counts."""
    choice = chunk["choices"][0] if chunk.get("choices") else {}
    delta = _delta(choice)
    text = choice.get("text") or delta.content
    usage = chunk.get("usage")
    if not (text or delta.ByteSize() or usage):
        return None
    found = Reply(message=text.encode(), chat_deltas=[delta] if delta.ByteSize() else [])
    timings = chunk.get("timings") or {}
    found.timing_prompt_processing = timings.get("prompt_ms", 0)
    found.timing_token_generation = timings.get("predicted_ms", 0)
    if usage:
        found.tokens, found.prompt_tokens = usage["completion_tokens"], usage["prompt_tokens"]
    elif timings:
        found.tokens = timings["predicted_n"]
        found.prompt_tokens = timings["cache_n"] + timings["prompt_n"]
    if choice.get("logprobs"):
        found.logprobs = json.dumps(choice["logprobs"]).encode()
    return found


def finish_reason(chunk: dict[str, Any]) -> str:
    """``stop``, ``length`` or ``tool_calls`` in the chunk that ends the answer, else an empty text."""
    choices = chunk.get("choices") or [{}]
    return choices[0].get("finish_reason") or ""


def joined(parts: Sequence[Reply]) -> Reply:
    """The one reply of a call that does not stream."""
    found = Reply()
    if not parts:
        return found
    last = parts[-1]
    found.message = b"".join(part.message for part in parts)
    found.tokens, found.prompt_tokens = last.tokens, last.prompt_tokens
    found.timing_prompt_processing = last.timing_prompt_processing
    found.timing_token_generation = last.timing_token_generation
    found.chat_deltas.extend(delta for part in parts for delta in part.chat_deltas)
    content = [item for part in parts if part.logprobs for item in json.loads(part.logprobs).get("content") or ()]
    if content:
        found.logprobs = json.dumps({"content": content}).encode()
    return found


def _delta(choice: dict[str, Any]) -> backend_pb2.ChatDelta:
    said = choice.get("delta") or {}
    return backend_pb2.ChatDelta(
        content=said.get("content") or "",
        reasoning_content=said.get("reasoning_content") or "",
        tool_calls=[
            backend_pb2.ToolCallDelta(
                index=call.get("index", 0),
                id=call.get("id") or "",
                name=call.get("function", {}).get("name") or "",
                arguments=call.get("function", {}).get("arguments") or "",
            )
            for call in said.get("tool_calls") or ()
        ],
    )
