"""What the fault backend says: text that names the model and counts its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator

import backend_pb2

Options = backend_pb2.PredictOptions
Reply = backend_pb2.Reply


def prompt_tokens(options: Options) -> int:
    """Words of the prompt or of all messages."""
    texts = [options.Prompt, *(message.content for message in options.Messages)]
    return sum(len(text.split()) for text in texts)


def replies(name: str, tokens: int, options: Options) -> Iterator[Reply]:
    """One reply for each token: ``<name> says: tok1 tok2 ...``, as many as wanted and the caller allows."""
    allowed = min(tokens, options.Tokens) if options.Tokens > 0 else tokens
    asked = prompt_tokens(options)
    for number in range(1, allowed + 1):
        piece = f"{name} says: tok1" if number == 1 else f" tok{number}"
        yield Reply(message=piece.encode(), tokens=number, prompt_tokens=asked)


def tool_call(wanted: str, options: Options) -> Iterator[Reply]:
    """One tool call in three pieces: its name, then its arguments in two halves."""
    name = _first_tool(options) if wanted == "true" else wanted
    asked = prompt_tokens(options)
    pieces = [("call_1", name, ""), ("", "", '{"argument": '), ("", "", json.dumps("value") + "}")]
    for number, (call_id, call_name, arguments) in enumerate(pieces, start=1):
        call = backend_pb2.ToolCallDelta(index=0, id=call_id, name=call_name, arguments=arguments)
        delta = backend_pb2.ChatDelta(tool_calls=[call])
        yield Reply(chat_deltas=[delta], tokens=number, prompt_tokens=asked)


def joined(parts: list[Reply]) -> Reply:
    """The one reply of a call that does not stream."""
    last = parts[-1] if parts else Reply()
    return Reply(
        message=b"".join(part.message for part in parts),
        tokens=last.tokens,
        prompt_tokens=last.prompt_tokens,
        chat_deltas=[delta for part in parts for delta in part.chat_deltas],
    )


def _first_tool(options: Options) -> str:
    tools = json.loads(options.Tools or "[]")
    return str(tools[0]["function"]["name"]) if tools else "tool"
