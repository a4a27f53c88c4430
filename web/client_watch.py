"""Detection that the client of a request closed its connection, also while there is nothing to write.

The end of input alone does not mean that: a client may shut down its sending direction and read on (RFC 9112,
section 9.6). After it the client's own socket decides, or, if the kernel cannot see that, a few bytes that HTTP allows
at this point: a closed client answers them with a reset.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Protocol

import gevent
from gevent.socket import wait_read

from localai.clock import boottime
from localai.errors import CallCancelled
from web import tcp_state
from web.tcp_state import PeerEnd, State

#: Watch the socket only after 50 ms: most calls finish sooner, and a timer costs less than a socket watcher.
_DELAY_S = 0.05
#: A client that sent bytes after its request keeps the socket readable; its state is looked at this often.
_UNREAD_PAUSE_S = 0.5
#: After the end of input the connection is looked at this often.
_LOOK_S = 0.25
#: A client on this machine that holds its socket gets no probe for this long. Later it gets them, because it may be a
#: relay (ssh, a port forward) that hands on the end of input but cannot hand on a close.
_TRUST_S = 30.0
#: Pause after the first probe; doubled after each interim response, so that a client gets few of them.
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0

_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
_COMMENT = b": keep-alive\n\n"


class Watch(Protocol):
    """Reports to the work done for a client that the client closed its connection."""

    def during(self, on_gone: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `on_gone` once if the client closes inside the block, or has closed before."""

    def close(self) -> None:
        """Stop watching."""


class ClientWatch:
    """Watches the connection of one request, from the first `during` until `close`.

    Use it as a context manager, or call `close` before the response is over: afterwards the connection belongs to the
    next request. Without a socket (a test client) no close is ever reported.
    """

    def __init__(
        self,
        connection: socket.socket | None,
        protocol: str = "HTTP/1.1",
        peer_end: Callable[[socket.socket], PeerEnd] = tcp_state.peer_end,
    ) -> None:
        self._connection, self._peer_end = connection, peer_end
        #: HTTP/1.0 knows neither interim responses nor chunks.
        self._is_1_0 = protocol == "HTTP/1.0"
        self._greenlet: gevent.Greenlet[..., None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self._head_sent = self._writing = False
        self.gone = False

    @classmethod
    def of(cls, environ: Mapping[str, Any]) -> ClientWatch:
        """The watch of a request under gunicorn."""
        return cls(environ.get("gunicorn.socket"), environ.get("SERVER_PROTOCOL", "HTTP/1.1"))

    @contextmanager
    def during(self, on_gone: Callable[[], None]) -> Iterator[None]:
        """Call `on_gone` once if the client closes inside the block, or has closed before."""
        self._on_gone = on_gone
        if self.gone:
            on_gone()
        elif self._greenlet is None and self._connection is not None:
            self._greenlet = gevent.spawn_later(_DELAY_S, self._watch, self._connection)
        try:
            yield
        finally:
            self._on_gone = None

    def sending(self, events: Iterable[bytes]) -> Generator[bytes]:
        """The events of a response on their way to the client; between two of them the watch may send a comment.

        A stream that ends by CallCancelled is cut: its connection is closed without the end of the body.
        """
        try:
            for piece in events:
                self._head_sent = self._writing = True
                yield piece
                self._writing = False
        except CallCancelled:
            self._cut()

    def close(self) -> None:
        """Stop watching."""
        greenlet, self._greenlet, self._connection = self._greenlet, None, None
        if greenlet is not None:
            greenlet.kill(block=False)

    def __enter__(self) -> ClientWatch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _cut(self) -> None:
        if self._is_1_0 and self._connection is not None:
            # The end of this connection would be the regular end of the body.
            tcp_state.reset_on_close(self._connection)
        # The HTTP server takes this error for a connection that broke: it closes the socket and logs nothing.
        raise BrokenPipeError(errno.EPIPE, "the client closed the connection before the end of the stream")

    # In the greenlet

    def _watch(self, connection: socket.socket) -> None:
        try:
            self._wait_for_end_of_input(connection)
            self._wait_for_close(connection)
        except OSError:  # what a broken connection answers to any call
            pass
        if self._connection is None:
            return
        self.gone = True
        if self._on_gone is not None:
            self._on_gone()

    def _wait_for_end_of_input(self, connection: socket.socket) -> None:
        tcp_state.keep_alive(connection)
        while tcp_state.state_of(connection) is State.OPEN:
            wait_read(connection.fileno())
            if tcp_state.state_of(connection) is State.OPEN:
                gevent.sleep(_UNREAD_PAUSE_S)

    def _wait_for_close(self, connection: socket.socket) -> None:
        began, pause_s = boottime(), _FIRST_PAUSE_S
        probe_at = began
        while self._connection is not None and tcp_state.state_of(connection) is not State.BROKEN:
            end, now = self._peer_end(connection), boottime()
            if end is PeerEnd.CLOSED or (end is PeerEnd.UNKNOWN and self._cannot_probe()):
                return
            if now >= (probe_at if end is PeerEnd.UNKNOWN else max(probe_at, began + _TRUST_S)):
                self._probe(connection)
                probe_at = now + pause_s
                if not self._head_sent:
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            gevent.sleep(_LOOK_S)

    def _cannot_probe(self) -> bool:
        return self._is_1_0 and not self._head_sent

    def _probe(self, connection: socket.socket) -> None:
        """Send bytes that mean nothing to the client. Never while the response is written, and never into a full
        buffer: bytes under way are a probe themselves."""
        if self._cannot_probe() or self._writing or tcp_state.unacknowledged(connection):
            return
        connection.send(self._framed(_COMMENT) if self._head_sent else _INTERIM)

    def _framed(self, piece: bytes) -> bytes:
        return piece if self._is_1_0 else b"%x\r\n%b\r\n" % (len(piece), piece)


class LentWatch:
    """A request's watch, lent to one of its calls: the end of the call does not end the watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def during(self, on_gone: Callable[[], None]) -> AbstractContextManager[None]:
        return self._watch.during(on_gone)

    def close(self) -> None:
        """Do nothing: the request closes its watch."""
