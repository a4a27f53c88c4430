"""The time that a request's body may take: the whole arrives within a limit, or in no less than so many bytes a second.

Only the wait for bytes is counted, from the first one: a body that is read late has not arrived late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import gevent

from localai.clock import boottime
from web.limits import BODY_BYTES_PER_S, BODY_S


class Unreader(Protocol):
    """Where gunicorn takes the bytes of a connection from."""

    chunk: Callable[[int | None], bytes]


@contextmanager
def timed(unreader: Unreader) -> Iterator[None]:
    """Bound the reads of one request's body. A read over the bound raises TimeoutError."""
    clock = _Clock(unreader.chunk)
    unreader.chunk = clock.chunk
    try:
        yield
    finally:
        del unreader.chunk  # the method of the class again: heads of requests have a limit of their own


class _Clock:
    def __init__(self, read: Callable[[int | None], bytes], clock: Callable[[], float] = boottime) -> None:
        self._read, self._clock = read, clock
        self._waited_s, self._received = 0.0, 0

    def chunk(self, size_hint: Any = None) -> bytes:
        began = self._clock()
        left = left_s(self._waited_s, self._received)
        try:
            with gevent.Timeout(max(left, 0.001), TimeoutError("it did not arrive in time")):
                piece = self._read(size_hint)
        finally:
            self._waited_s += self._clock() - began
        self._received += len(piece)
        return piece


def left_s(waited_s: float, received: int) -> float:
    """How long the next bytes may take."""
    return max(BODY_S, received / BODY_BYTES_PER_S) - waited_s
