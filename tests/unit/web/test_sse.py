"""No event of a stream holds a line separator of Unicode as it is."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from localai.inference.streams import Part
from web.client_watch import ClientWatch
from web.openai.answers import Chunks, Head, sse
from web.sse import EventStream, event

pytestmark = pytest.mark.unit

SEPARATORS = "a\u2028b\u2029c\x85d é 漢"


def sent(*pieces: bytes) -> list[bytes]:
    def events() -> Generator[bytes]:
        yield from pieces

    return list(EventStream(events(), ClientWatch(None), lambda: None))


def test_every_event_stream_escapes_line_separators() -> None:
    chunks = Chunks(Head(id="c", created=1, model="m"))
    pieces = sent(
        chunks.part(Part(content=SEPARATORS)), sse({"text": SEPARATORS}), event("job", {"text": SEPARATORS}), b": x\n\n"
    )
    for piece in pieces:
        text = piece.decode()
        assert text.endswith("\n\n") and len(text.strip().splitlines()) == text.strip().count("\n") + 1
    data = [piece.decode().partition("data: ")[2] for piece in pieces[:3]]
    assert json.loads(data[0])["choices"][0]["delta"]["content"] == SEPARATORS
    assert [json.loads(text)["text"] for text in data[1:]] == [SEPARATORS] * 2
