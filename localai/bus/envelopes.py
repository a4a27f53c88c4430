"""How a payload looks on the wire: one JSON object in UTF-8."""

from __future__ import annotations

import json
from typing import Any

from localai.bus.ports import Payload

#: The field of an answer that turns it into a refusal.
ERROR = "error"


class MalformedPayloadError(ValueError):
    """Bytes of a message that are not one JSON object."""


def encode(payload: Payload) -> bytes:
    """The bytes of a payload. Raises TypeError or ValueError for what JSON cannot carry: a fault of the caller."""
    return json.dumps(dict(payload), separators=(",", ":"), allow_nan=False).encode()


def decode(data: bytes) -> dict[str, Any]:
    """The payload of a message; nothing and ``null`` are the empty one. Raises MalformedPayloadError."""
    if not data:
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedPayloadError("not JSON") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedPayloadError(f"a JSON {type(value).__name__} where an object is due")
    return value
