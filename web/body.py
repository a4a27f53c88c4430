"""How is a JSON body read: bounded, and refused with the reason."""

from __future__ import annotations

import json
from typing import Any

from flask import current_app, request

from localai.errors import BadInput, BodyTooLarge

#: A refused body is read to its end up to this size, so that the caller gets the answer and not a reset connection.
_DRAIN_LIMIT_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 256 * 1024


def body_limit() -> int:
    """Largest body in bytes."""
    return int(current_app.config["BODY_LIMIT_BYTES"])


def read_body() -> bytes:
    """The whole body. Raises BodyTooLarge."""
    limit, length = body_limit(), request.content_length
    if length is not None and length > limit:
        _drain()
        raise BodyTooLarge(limit)
    data: bytes = request.environ["wsgi.input"].read(limit + 1 if length is None else length)
    if len(data) > limit:
        _drain()
        raise BodyTooLarge(limit)
    return data


def read_json_object(*, empty: bool = False) -> dict[str, Any]:
    """The body as one JSON object; with `empty` no body at all is an empty one.

    Raises BadInput for malformed JSON and for any other JSON value.
    """
    data = read_body()
    if empty and not data.strip():
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadInput("body", _shown(data), "one JSON object", f"body: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadInput("body", value, "one JSON object")
    return value


def _shown(data: bytes) -> str:
    return data[:60].decode("utf-8", "replace")


def _drain() -> None:
    stream, left = request.environ["wsgi.input"], _DRAIN_LIMIT_BYTES
    while left > 0 and (piece := stream.read(min(_PIECE_BYTES, left))):
        left -= len(piece)
