"""Fields of request bodies that say exactly what they accept, and how a schema's complaint becomes one error."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, validate

from localai.errors import BadInput, shown
from web.limits import Limit
from web.turns import Turns

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


class Items(fields.List):
    """A list whose length is checked before its items. The first wrong item ends the check.

    Its parent checks all items and gathers what is wrong with each of them.
    """

    def __init__(self, inner: fields.Field[Any], limit: Limit, *, least: int = 0, **options: Any) -> None:
        super().__init__(inner, **options)
        self._least, self._most = least, limit.most

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        check_length(value, self._least, self._most)
        found, turns = [], Turns()
        for place, item in enumerate(value):
            try:
                found.append(self.inner.deserialize(item, **kwargs))
            except ValidationError as error:
                raise ValidationError({place: error.messages}) from None  # type: ignore[dict-item]
            turns.give()
        return found


class Entries(fields.Dict):
    """An object whose length is checked before its values. The first wrong value ends the check."""

    def __init__(self, values: fields.Field[Any], limit: Limit, **options: Any) -> None:
        super().__init__(values=values, **options)
        self._most = limit.most

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.make_error("invalid")
        check_length(value, 0, self._most)
        found, turns = {}, Turns()
        for key, item in value.items():
            try:
                found[key] = self.value_field.deserialize(item, **kwargs)
            except ValidationError as error:
                raise ValidationError({key: {"value": error.messages}}) from None  # type: ignore[dict-item]
            turns.give()
        return found


def check_length(value: Sized, least: int, most: int) -> None:
    """Raises ValidationError, which does not show the value: it may be large."""
    if not least <= len(value) <= most:
        raise ValidationError(f"{len(value)} entries; accepted: {least} to {most}")


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
        text = f"{name}: {shown(value)} cannot be used: {message}" if given else f"{name}: {message}"
        raise BadInput(name, value, message, text) from None


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
