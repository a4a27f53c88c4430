"""Has the client left? Noticed also while there is nothing to write: WSGI itself sees it at the next write only."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Protocol

import gevent
from gevent.socket import wait_read

#: A client that sent its next request early stays readable; it is looked at again after this long.
_PIPELINED_PAUSE_S = 0.5
#: Most calls are over before anybody leaves: until then a timer does, without turns of the loop and system calls.
_PATIENCE_S = 0.05


class Watch(Protocol):
    """Tells whoever works for a client that it has left."""

    def during(self, on_gone: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `on_gone` once if the client leaves inside the block, or has left before."""

    def close(self) -> None:
        """Stop watching."""


class ClientWatch:
    """Watches the connection of one request, from the first `during` until `close`.

    Use it as a context manager, or call `close` before the response is over: afterwards the connection belongs to the
    next request. Without a socket (a test client) nobody ever leaves.
    """

    def __init__(self, connection: socket.socket | None) -> None:
        self._connection = connection
        self._greenlet: gevent.Greenlet[..., None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self.gone = False

    @classmethod
    def of(cls, environ: Mapping[str, Any]) -> ClientWatch:
        """The watch of a request under gunicorn."""
        return cls(environ.get("gunicorn.socket"))

    @contextmanager
    def during(self, on_gone: Callable[[], None]) -> Iterator[None]:
        """Call `on_gone` once if the client leaves inside the block, or has left before."""
        self._on_gone = on_gone
        if self.gone:
            on_gone()
        elif self._greenlet is None and self._connection is not None:
            self._greenlet = gevent.spawn_later(_PATIENCE_S, self._watch, self._connection)
        try:
            yield
        finally:
            self._on_gone = None

    def close(self) -> None:
        """Stop watching."""
        greenlet, self._greenlet, self._connection = self._greenlet, None, None
        if greenlet is not None:
            greenlet.kill(block=False)

    def __enter__(self) -> ClientWatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _watch(self, connection: socket.socket) -> None:
        while not _left(connection):
            gevent.sleep(_PIPELINED_PAUSE_S)
        self.gone = True
        if self._on_gone is not None:
            self._on_gone()


class LentWatch:
    """A request's watch in the hands of one of its calls, whose end does not end the watching."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def during(self, on_gone: Callable[[], None]) -> AbstractContextManager[None]:
        return self._watch.during(on_gone)

    def close(self) -> None:
        """Nothing."""


def _left(connection: socket.socket) -> bool:
    """Wait until there is something to read; whether it is the end."""
    try:
        wait_read(connection.fileno())
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
