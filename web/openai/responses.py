"""How an answer becomes a response: which node it names, and what is closed when it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator

from flask import Response

from localai.errors import LocalAIError
from web.client_watch import Watch
from web.cold_stream import ColdStream, S
from web.errors import openai_body
from web.openai.answers import DONE, sse
from web.services import services
from web.serving import Tell


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


def cold_stream(
    open_stream: Callable[[Tell, Watch], S], watch: Watch, events: Callable[[S], Iterable[bytes]]
) -> Response:
    """The response of a model that loads: it shows how far, then sends the events of the stream."""
    stream = ColdStream(open_stream, watch)
    stream.begin()
    return event_stream(stream.events(events, _refusal), stream.close)


def _refusal(error: LocalAIError) -> bytes:
    """The end of a stream whose model did not come: what a 503 would have said."""
    return sse(openai_body(error)) + DONE


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
