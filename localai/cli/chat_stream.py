"""What does a line of a streamed chat answer mean?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream ended with an error."""

    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is complete."""


def read_events(lines: Iterable[str]) -> Iterator[Piece | Failed | Ended]:
    """What the lines of a `text/event-stream` body say. A body that ends without `[DONE]` was cut off."""
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            yield Ended()
            return
        yield from _chunk(data)
    yield Failed("the answer was cut off")


def _chunk(data: str) -> Iterator[Piece | Failed]:
    try:
        chunk = json.loads(data)
    except ValueError:
        yield Failed("the answer holds a line that is not JSON")
        return
    error = chunk.get("error") if isinstance(chunk, Mapping) else None
    if error:
        message = error.get("message") if isinstance(error, Mapping) else error
        yield Failed(str(message or "the model failed"))
        return
    text = _content(chunk)
    if text:
        yield Piece(text)


def _content(chunk: Any) -> str:
    try:
        return str(chunk["choices"][0]["delta"].get("content") or "")
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""
