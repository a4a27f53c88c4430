"""Responses of inference requests: the header that names the node, and the stream of a model that loads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flask import Response

from localai.errors import LocalAIError
from web import sse
from web.client_watch import ClientWatch, Watch
from web.cold_stream import ColdStream, S
from web.errors import openai_body
from web.openai.answers import DONE
from web.openai.answers import sse as data
from web.services import services
from web.serving import Tell


def named(response: Response, node_id: str) -> Response:
    """The response with the node that answered, where the setting says so."""
    if services().settings.expose_node_header:
        response.headers["X-LocalAI-Node"] = node_id
    return response


def cold_stream(
    open_stream: Callable[[Tell, Watch], S], watch: ClientWatch, events: Callable[[S], Iterable[bytes]]
) -> Response:
    """The response of a model that loads: it shows how far, then sends the events of the stream."""
    stream = ColdStream(open_stream, watch)
    stream.begin()
    return sse.stream(stream.events(events, _refusal), watch, stream.close)


def _refusal(error: LocalAIError) -> bytes:
    """The end of a stream whose model did not come: what a 503 would have said."""
    return data(openai_body(error)) + DONE
