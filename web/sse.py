"""How a response that grows is sent as server-sent events, and ended when its client leaves."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from flask import Response, request

from web.client_watch import ClientWatch

#: A comment this often keeps connections open that proxies would close for silence.
KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": keep-alive\n\n"


def event(name: str, value: Any, event_id: int | None = None) -> bytes:
    """One named event that holds a JSON value."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


class EventStream:
    """The body of an event stream: a generator that is closed with the response, whatever ends it."""

    def __init__(self, events: Generator[bytes], watch: ClientWatch) -> None:
        self._events, self._watch = events, watch

    def __iter__(self) -> Generator[bytes]:
        return self._events

    def close(self) -> None:
        """End the generator and the watch."""
        try:
            self._events.close()
        finally:
            self._watch.close()


def last_event_id() -> int:
    """Where a client that comes back wants to go on; 0 is the beginning."""
    text = request.headers.get("Last-Event-ID") or request.args.get("after") or "0"
    return int(text) if text.isdecimal() else 0


def stream(events: Generator[bytes], watch: ClientWatch) -> Response:
    """The response that sends these events."""
    response = Response(EventStream(events, watch), mimetype="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Accel-Buffering"] = "no"
    return response
