"""How is a JSON body read: bounded, and refused with the reason."""

from __future__ import annotations

import json
import re
from typing import Any

from flask import current_app, request

from localai.errors import BadInput, BodyTooLarge

#: Half a surrogate pair and NUL: JSON can say them, UTF-8 and a row cannot hold them.
_NO_CHARACTERS = re.compile("[\0\ud800-\udfff]")
#: How either looks in a body that the decoder takes; whole pairs look like it too.
_PERHAPS_NO_CHARACTERS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


def body_limit() -> int:
    """Largest body in bytes."""
    return int(current_app.config["BODY_LIMIT_BYTES"])


def read_body() -> bytes:
    """The whole body. Raises BodyTooLarge; `unread_body` then reads what is left of it."""
    limit, length = body_limit(), request.content_length
    if length is not None and length > limit:
        raise BodyTooLarge(limit)
    try:
        data: bytes = request.environ["wsgi.input"].read(limit + 1 if length is None else length)
    except OSError as error:  # a chunk that is none, or a connection that broke
        raise BadInput("body", "", "", f"body: it cannot be read: {error}") from None
    if len(data) > limit:
        raise BodyTooLarge(limit)
    return data


def read_json_object(*, empty: bool = False, most: int | None = None) -> dict[str, Any]:
    """The body as one JSON object; with `empty` no body at all is an empty one, and it has ``most`` bytes at most.

    What no row can hold becomes U+FFFD, as in broken UTF-8: refused for one text of a backend, an agent's report would
    renew none of its operations. Raises BadInput for malformed JSON and for any other JSON value.
    """
    data = read_body()
    if most is not None and len(data) > most:
        raise BadInput("body", _shown(data), f"at most {most} bytes")
    if empty and not data.strip():
        return {}
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text)
        if _PERHAPS_NO_CHARACTERS.search(text):
            value = _storable(value)
    except (ValueError, RecursionError) as error:
        raise BadInput("body", _shown(data), "one JSON object", f"body: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadInput("body", value, "one JSON object")
    return value


def _storable(value: Any) -> Any:
    """The value with every text in it made one that a row can hold."""
    if isinstance(value, str):
        return _NO_CHARACTERS.sub("\ufffd", value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    if isinstance(value, dict):
        return {_storable(key): _storable(item) for key, item in value.items()}
    return value


def _shown(data: bytes) -> str:
    return data[:60].decode("utf-8", "replace")
