"""Whether the structure of a JSON text is small enough to be parsed, found by counting in its bytes.

A parser holds the event loop from the first byte to the last, and its cost lies in values and not in bytes. Counting
goes piece by piece, so that the caller can let others have their turn in between.

A first pass counts in all bytes. Only if that is too much, a second one leaves the texts out and is exact. Both are
exact up to the first place at which the bytes are no JSON, and a parser comes no further.
"""

from __future__ import annotations

from collections.abc import Iterator

from localai.errors import RequestTooComplex
from web import limits

PIECE_BYTES = 128 * 1024

_DIGITS = b"0123456789"
#: Every digit becomes 0 and everything else a space, so that a long number is one plain text to search for.
_AS_ZEROS = bytes(ord("0") if byte in _DIGITS else ord(" ") for byte in range(256))
_LONG_NUMBER = b"0" * (limits.DIGITS.most + 1)
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_OPENS = frozenset(b"[{")


def check(data: bytes) -> Iterator[None]:
    """Count the structure of a JSON text; one step for each piece of it. Raises RequestTooComplex."""
    rough = _Rough()
    for piece in _pieces(data):
        rough.add(piece)
        if not rough.harmless:
            break
        yield
    else:
        return
    texts, exact = _WithoutTexts(), _Exact()
    for piece in _pieces(data):
        yield
        exact.add(texts.rest_of(piece))


def _pieces(data: bytes) -> Iterator[bytes]:
    if len(data) <= PIECE_BYTES:
        yield data
        return
    for start in range(0, len(data), PIECE_BYTES):
        yield data[start : start + PIECE_BYTES]


class _Counts:
    """What was counted so far."""

    def __init__(self) -> None:
        self.containers = self.values = self.names = 0
        self._digits = b""

    def count(self, piece: bytes) -> None:
        opened = piece.count(b"[") + piece.count(b"{")
        self.containers += opened
        self.values += opened + piece.count(b",")
        self.names += piece.count(b":")

    def has_long_number(self, piece: bytes) -> bool:
        """Whether there are too many digits in a row, those at the end of the piece before included."""
        zeros = self._digits + piece.translate(_AS_ZEROS)
        self._digits = zeros[-limits.DIGITS.most :]
        return _LONG_NUMBER in zeros


class _Rough(_Counts):
    """Counts everywhere, also inside of texts: never less than there is."""

    harmless = True

    def add(self, piece: bytes) -> None:
        self.count(piece)
        self.harmless = (
            self.containers <= limits.DEPTH.most  # no deeper than as many
            and self.values <= limits.VALUES.most
            and self.names <= limits.NAMES.most
            and not self.has_long_number(piece)
        )


class _Exact(_Counts):
    """Counts what is no text. Raises RequestTooComplex as soon as there is too much."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def add(self, piece: bytes) -> None:
        self.count(piece)
        _refuse_above(limits.VALUES, self.values)
        _refuse_above(limits.CONTAINERS, self.containers)
        _refuse_above(limits.NAMES, self.names)
        _refuse_above(limits.DEPTH, self._deepest(piece))
        if self.has_long_number(piece):
            _refuse_above(limits.DIGITS, limits.DIGITS.most + 1)

    def _deepest(self, piece: bytes) -> int:
        deepest = depth = self._depth
        for bracket in piece.translate(None, _NOT_BRACKETS):
            if bracket in _OPENS:
                depth += 1
                deepest = max(deepest, depth)
            else:
                depth -= 1
        self._depth = depth
        return deepest


class _WithoutTexts:
    """Takes a JSON text piece by piece and leaves out what is inside of its texts."""

    def __init__(self) -> None:
        self._inside = False
        self._escape = b""

    def rest_of(self, piece: bytes) -> bytes:
        """What of the next piece is no text."""
        # Pairs of backslashes go first, from the left as a parser reads them: one that is left escapes what follows.
        piece = (self._escape + piece).replace(b"\\\\", b"")
        self._escape = b"\\" if piece.endswith(b"\\") else b""
        parts = piece.removesuffix(b"\\").replace(b'\\"', b"").split(b'"')
        outside = parts[self._inside :: 2]
        self._inside ^= len(parts) % 2 == 0
        return b" ".join(outside)


def _refuse_above(limit: limits.Limit, found: int) -> None:
    if found > limit.most:
        raise RequestTooComplex(limit.most, limit.what)
