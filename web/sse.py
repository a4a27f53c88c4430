"""Responses of server-sent events: their format, and their end when the client closes the connection."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

from flask import Response, request

from localai.whole_numbers import whole_number
from web.client_watch import ClientWatch

#: A comment this often keeps connections open that proxies would close for silence.
KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": keep-alive\n\n"


#: Line separators of Unicode. JSON holds them as they are, and some readers of lines split an event there.
_SEPARATORS = tuple((text.encode(), b"\\u%04x" % ord(text)) for text in ("\u0085", "\u2028", "\u2029"))


def event(name: str, value: Any, event_id: int | None = None) -> bytes:
    """One named event that holds a JSON value."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


class EventStream:
    """The body of an event stream. A class and not a generator: `close` must run even if nothing was read."""

    def __init__(self, events: Generator[bytes], watch: ClientWatch, close: Callable[[], None]) -> None:
        self._events, self._watch, self._close = events, watch, close

    def __iter__(self) -> Generator[bytes]:
        return self._watch.sending(map(_escaped, self._events))

    def close(self) -> None:
        """End the generator, then call `close`, whatever ended the response."""
        try:
            self._events.close()
        finally:
            self._close()


def _escaped(piece: bytes) -> bytes:
    """An event whose JSON holds line separators as escapes."""
    if piece.isascii():
        return piece
    for separator, escape in _SEPARATORS:
        piece = piece.replace(separator, escape)
    return piece


def last_event_id() -> int:
    """Where a client that comes back wants to go on; 0 is the beginning."""
    text = request.headers.get("Last-Event-ID") or request.args.get("after") or "0"
    return whole_number(text) or 0


def stream(events: Generator[bytes], watch: ClientWatch, close: Callable[[], None] | None = None) -> Response:
    """The response that sends these events. At its end `close` is called; without one the watch is closed.

    Events that raise CallCancelled cut the stream: the client reads no regular end of the body.
    """
    response = Response(EventStream(events, watch, close or watch.close), mimetype="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    # A proxy that gathers the events would undo the streaming.
    response.headers["X-Accel-Buffering"] = "no"
    return response
