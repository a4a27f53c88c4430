"""What becomes of a body that nobody read, because the request was refused before? It is read on, within bounds.

The answer has left by then. A connection that is closed while its client still sends would be reset, and the client
might never see the answer; one that is read for as long as the client likes costs the client nothing, and us a
greenlet.
"""

from __future__ import annotations

import socket
from typing import Protocol

import gevent
from gunicorn.http.errors import ParseException

from localai.errors import RequestTooComplex
from web import body_pieces
from web.turns import Turns

LIMIT_BYTES = 64 * 1024 * 1024
LIMIT_S = 5.0
_DRAINED_BYTES = 64 * 1024


class Body(body_pieces.Body, Protocol):
    """A body of gunicorn."""

    @property
    def failed(self) -> bool:
        """A read has failed: where the next request begins is not known."""


class Unreader(Protocol):
    """The connection of a request, as gunicorn reads it."""

    @property
    def sock(self) -> socket.socket: ...


class Request(Protocol):
    """A request of gunicorn."""

    @property
    def body(self) -> Body | None: ...

    @property
    def unreader(self) -> Unreader: ...

    def force_close(self) -> None:
        """No other request comes by this connection."""


def finish(request: Request) -> None:
    """Read what is left of the body. A connection whose body did not end within the bounds is closed."""
    if request.body is None:
        return
    ended = False
    with gevent.Timeout(LIMIT_S, False):  # type: ignore[arg-type]  # False: leave the block silently
        ended = _ends(request.body)
        if request.body.failed:
            _drain(request.unreader.sock)
    if not ended:
        request.force_close()


def _ends(body: Body) -> bool:
    read = 0
    try:
        for piece in body_pieces.pieces(body, LIMIT_BYTES):
            read += len(piece)
    # A chunk or a trailer that is none, a connection that broke, too many chunks.
    except (OSError, ParseException, RequestTooComplex):
        return False
    return read < LIMIT_BYTES and not body.failed


def _drain(connection: socket.socket) -> None:
    """Say that nothing more comes, and read on without looking at it: where such a body ends is not known."""
    read, turns = 0, Turns()
    try:
        connection.shutdown(socket.SHUT_WR)
        while read < LIMIT_BYTES and (piece := connection.recv(_DRAINED_BYTES)):
            read += len(piece)
            turns.give()
    except OSError:
        return  # the client is gone
