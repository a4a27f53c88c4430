"""Lines end at a line feed, and no other character ends one."""

from __future__ import annotations

import json

import pytest

from localai.cli.chat_stream import Ended, Piece, read_events
from localai.lines import lines_in, lines_of

pytestmark = pytest.mark.unit

OTHERS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb\n\nc", ["a", "b", "", "c"]),
        (OTHERS, [OTHERS]),
        ("a\rb", ["a\rb"]),
    ],
)
def test_a_text_is_split_at_line_feeds_only(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines
    assert list(lines_in([text.encode()])) == lines
    assert list(lines_in(bytes([byte]) for byte in text.encode())) == lines, "also in the middle of a character"


def test_a_chat_with_separators_of_unicode_is_read_whole() -> None:
    chunk = json.dumps({"choices": [{"delta": {"content": OTHERS}}]}, ensure_ascii=False)
    body = f"data: {chunk}\r\n\r\ndata: [DONE]\n\n".encode()
    assert list(read_events(lines_in([body]))) == [Piece(OTHERS), Ended()]
