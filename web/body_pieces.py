"""A body of gunicorn, read in pieces between which the other requests of the process have their turn.

A client that sends faster than it is read never makes a read wait, so reading alone would hold the event loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from gunicorn.http.body import ChunkedReader

from localai.errors import RequestTooComplex
from web.limits import CHUNKS
from web.turns import Turns

_PIECE_BYTES = 256 * 1024
#: A chunk may hold one byte, and costs as much as a large one.
_CHUNKED_PIECE_BYTES = 8 * 1024


class Body(Protocol):
    """A body of gunicorn."""

    def read(self, size: int) -> bytes: ...


def pieces(body: Body, most: int) -> Iterator[bytes]:
    """At most so many bytes of a body; fewer if it ends before. Raises RequestTooComplex for too many chunks."""
    turns, step = Turns(), _step(body)
    while most > 0 and (piece := body.read(min(step, most))):
        yield piece
        most -= len(piece)
        turns.give()


def _step(body: Body) -> int:
    reader = getattr(body, "reader", None)
    if not isinstance(reader, ChunkedReader):
        return _PIECE_BYTES
    if reader.parser is not None and not isinstance(reader.parser, _Chunks):
        reader.parser = _Chunks(reader.parser)
    return _CHUNKED_PIECE_BYTES


class _Chunks:
    """The chunks of a body, counted: the cost of a body lies in them and not in its bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._count = chunks, 0

    def __next__(self) -> bytes:
        self._count += 1
        if self._count > CHUNKS.most:
            raise RequestTooComplex(CHUNKS.most, CHUNKS.what)
        return next(self._chunks)
