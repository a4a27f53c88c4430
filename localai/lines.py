"""Splitting of text into lines at a line feed, with or without a carriage return before it, and nowhere else.

`str.splitlines` also splits at U+0085, U+2028, U+2029 and control characters, which are part of the text in JSON, in
event streams and in logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lines_of(text: str) -> list[str]:
    """The lines of a whole text, without their ends."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    if not lines[-1]:
        del lines[-1]
    return lines


def lines_in(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a UTF-8 text that comes in pieces, each as soon as it is complete."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield _text(line)
    if rest:
        yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")
