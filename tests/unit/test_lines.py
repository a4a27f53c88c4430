"""Lines end at a line feed, and no other character ends one."""

from __future__ import annotations

import json

import httpx2
import pytest

from localai.cli.chat_stream import Ended, Piece, read_events
from localai.cli.client import Client
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


def test_the_chat_command_reads_separators_of_unicode_as_text() -> None:
    chunk = json.dumps({"choices": [{"delta": {"content": OTHERS}}]}, ensure_ascii=False)
    response = httpx2.Response(200, content=f"data: {chunk}\r\n\r\ndata: [DONE]\n\n".encode())
    lines = Client("http://server", "key").lines_of(response)
    assert list(read_events(lines)) == [Piece(OTHERS), Ended()]
