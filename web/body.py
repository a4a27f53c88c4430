"""How is a JSON body read: bounded in bytes and in structure, in steps between which others have their turn, and
refused with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from flask import current_app, request
from gunicorn.http.errors import ParseException

from localai.errors import BadInput, BodyTooLarge, BodyTooSlow
from web import structure_rules
from web.body_pieces import pieces
from web.limits import BODY_BYTES_PER_S, BODY_S, SMALL_BODY, Limit
from web.turns import Turns

View = TypeVar("View", bound=Callable[..., Any])

#: Half a surrogate pair and NUL: JSON can say them, UTF-8 and a row cannot hold them.
_NO_CHARACTERS = re.compile("[\0\ud800-\udfff]")
#: How either looks in a body that the decoder takes; whole pairs look like it too.
_PERHAPS_NO_CHARACTERS = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
_ESCAPE_CHARACTERS = 6
#: Characters of a text that are looked through in one step.
_STEP = 64 * 1024


def takes(limit: Limit | None) -> Callable[[View], View]:
    """Say how large a body a view takes; None is LOCALAI_UPLOAD_LIMIT. A view that says nothing takes a small one."""

    def mark(view: View) -> View:
        view.takes = limit  # type: ignore[attr-defined]
        return view

    return mark


def check_length() -> None:
    """Refuse a body that says that it is too large before any of it is read. Raises BodyTooLarge."""
    if request.url_rule is not None:
        _length(*_limit())


def read_body() -> bytes:
    """The whole body. Raises BodyTooLarge, BodyTooSlow; `unread_body` then reads what is left of it."""
    limit, setting = _limit()
    length = _length(limit, setting)
    stream, most = request.environ["wsgi.input"], limit + 1 if length is None else length
    try:
        data = b"".join(pieces(stream, most))
    except TimeoutError:
        raise BodyTooSlow(BODY_S, BODY_BYTES_PER_S) from None
    except (OSError, ParseException) as error:  # a chunk or a trailer that is none, or a connection that broke
        raise BadInput("body", "", "", f"body: it cannot be read: {error}") from None
    if len(data) > limit:
        raise BodyTooLarge(limit, setting=setting)
    return data


def _limit() -> tuple[int, str]:
    """Largest body of the request under way, in bytes, and the setting that says it."""
    view = current_app.view_functions.get(request.endpoint or "")
    limit: Limit | None = getattr(view, "takes", SMALL_BODY)
    if limit is None:
        return int(current_app.config["BODY_LIMIT_BYTES"]), "LOCALAI_UPLOAD_LIMIT"
    return limit.most, ""


def _length(limit: int, setting: str) -> int | None:
    length = request.content_length
    if length is not None and length > limit:
        raise BodyTooLarge(limit, setting=setting)
    return length


def read_json_object(*, empty: bool = False, most: int | None = None) -> dict[str, Any]:
    """The body as one JSON object; with `empty` no body at all is an empty one, and it has ``most`` bytes at most.

    What no row can hold becomes U+FFFD, as in broken UTF-8: refused for one text of a backend, an agent's report would
    renew none of its operations. Raises BadInput for malformed JSON, for a number that is none or larger than any,
    and for any other JSON value; RequestTooComplex.
    """
    data = read_body()
    if most is not None and len(data) > most:
        raise BadInput("body", _shown(data), f"at most {most} bytes")
    if empty and not data.strip():
        return {}
    turns = Turns()
    for _ in structure_rules.check(data):
        turns.give()
    try:
        value = _parsed(data, turns)
    except (ValueError, RecursionError) as error:
        raise BadInput("body", _shown(data), "one JSON object", f"body: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadInput("body", value, "one JSON object")
    return value


def _parsed(data: bytes, turns: Turns) -> Any:
    text = data.decode("utf-8-sig")
    escaped = _has_escape_of_no_character(text, turns)
    long = len(text) > _STEP
    if long:
        turns.give_now()
    value = _DECODER.decode(text)
    if long:
        turns.give_now()
    return _storable(value, turns) if escaped else value


def _has_escape_of_no_character(text: str, turns: Turns) -> bool:
    for start in range(0, len(text), _STEP):
        if _PERHAPS_NO_CHARACTERS.search(text, start, start + _STEP + _ESCAPE_CHARACTERS):
            return True
        turns.give()
    return False


def _storable(value: Any, turns: Turns) -> Any:
    """The value with every text in it made one that a row can hold."""
    turns.give()
    if isinstance(value, str):
        return _storable_text(value, turns)
    if isinstance(value, list):
        return [_storable(item, turns) for item in value]
    if isinstance(value, dict):
        return {_storable_text(key, turns): _storable(item, turns) for key, item in value.items()}
    return value


def _storable_text(text: str, turns: Turns) -> str:
    if len(text) <= _STEP:
        return _NO_CHARACTERS.sub("\ufffd", text)
    pieces = []
    for start in range(0, len(text), _STEP):
        pieces.append(_NO_CHARACTERS.sub("\ufffd", text[start : start + _STEP]))
        turns.give()
    return "".join(pieces)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is larger than any number")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


#: Python reads NaN and Infinity, which are no JSON, and a number that is too large as infinite.
_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_number)


def _shown(data: bytes) -> str:
    return data[:60].decode("utf-8", "replace")
