"""Fields of request bodies that say exactly what they accept, and how a schema's complaint becomes one error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, validate

from localai.errors import BadInput

_INT32 = 2**31 - 1


class Whole(fields.Integer):
    """A whole number; also written as a float without a fraction, never as text or as a truth value."""

    def _validated(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise self.make_error("invalid")
        return super()._validated(int(value))


class Number(fields.Float):
    """A finite number, never as text or as a truth value."""

    def _validated(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.make_error("invalid")
        return super()._validated(value)


class Switch(fields.Boolean):
    """`true` or `false`, and nothing that looks like them."""

    truthy = {True}  # noqa: RUF012 - as its parent declares it
    falsy = {False}  # noqa: RUF012

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid", input=value)
        return value


def whole(least: int = -_INT32 - 1, most: int = _INT32, **options: Any) -> Whole:
    """A whole number within bounds that the backend protocol can carry."""
    return Whole(validate=validate.Range(least, most), allow_none=True, load_default=None, **options)


def number(least: float, most: float, **options: Any) -> Number:
    """A number within bounds."""
    return Number(validate=validate.Range(least, most), allow_none=True, load_default=None, **options)


def text(limit: int | None = None, **options: Any) -> fields.String:
    """A text that may be left out."""
    check = validate.Length(max=limit) if limit else None
    return fields.String(validate=check, allow_none=True, load_default=None, **options)


def load(schema: Schema, body: Mapping[str, Any]) -> Any:
    """What a schema makes of a body; unknown fields are left out.

    Raises BadInput that names the first wrong field, its value and what is wrong with it.
    """
    try:
        return schema.load(body, unknown=EXCLUDE)
    except ValidationError as error:
        path, message = _first(error.messages)
        name, (given, value) = _name(path) or "body", _value(body, path)
        text = f"{name}: {_shown(value)} cannot be used: {message}" if given else f"{name}: {message}"
        raise BadInput(name, value, message, text) from None


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _first(messages: Any) -> tuple[list[Any], str]:
    path: list[Any] = []
    while isinstance(messages, dict):
        key, messages = next(iter(messages.items()))
        if key != "_schema":
            path.append(key)
    return path, str(messages[0] if isinstance(messages, list) else messages)


def _name(path: list[Any]) -> str:
    """`messages[0].role` for the path of a field."""
    name = ""
    for part in path:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name


def _value(body: Any, path: list[Any]) -> tuple[bool, Any]:
    """Whether there is a value at a path, and which."""
    for part in path:
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            return False, None
    return True, body
