"""How an answer becomes a response: which node it names, and what is closed when it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from flask import Response

from web.services import services


def named(response: Response, node_id: str) -> Response:
    """The response with the node that answered, where the setting says so."""
    if services().settings.expose_node_header:
        response.headers["X-LocalAI-Node"] = node_id
    return response


def event_stream(events: Generator[bytes], close: Callable[[], None]) -> Response:
    """The response that sends these events, and calls `close` when it ends, however it ends."""
    response = Response(_Body(events, close), mimetype="text/event-stream")
    response.headers["Cache-Control"] = "no-cache"
    # A proxy that gathers the events would undo the streaming.
    response.headers["X-Accel-Buffering"] = "no"
    return response


class _Body:
    """A class and not a generator: `close` must run even if nothing was read."""

    def __init__(self, events: Generator[bytes], close: Callable[[], None]) -> None:
        self._events, self._close = events, close

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        try:
            self._events.close()
        finally:
            self._close()
