"""How one value is taken out of untrusted YAML: with its type, or refused with its full name.

A key that is absent or null is unset. Keys nobody asks for are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from localai.errors import BadInput
from localai.settings import parse_duration

#: Whole numbers travel as int32 to the backend.
_LARGEST = 2**31 - 1


def stays_below(path: str) -> bool:
    """Whether a path with forward slashes, joined to a folder, names something inside it, in one spelling only."""
    return not any(part in ("", ".", "..") for part in path.split("/")) and "\\" not in path and "\0" not in path


def _is_text(value: object) -> bool:
    """Whether a value is a text that rows and the environment of a process can hold: neither takes a NUL."""
    return isinstance(value, str) and "\0" not in value


class Section:
    """One mapping of a document and where it stands in it."""

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path

    def name_of(self, key: str) -> str:
        """The full name of a key, as errors show it: ``parameters.temperature``."""
        return f"{self._path}.{key}" if self._path else key

    def section(self, key: str) -> Section:
        """The mapping below a key; an unset one is empty."""
        return Section(self.mapping(key), self.name_of(key))

    def sections(self, key: str) -> list[Section]:
        """The mappings of a list."""
        items = self._list(key)
        for item in items:
            if not isinstance(item, Mapping):
                raise BadInput(self.name_of(key), item, "a list of mappings")
        return [Section(item, f"{self.name_of(key)}[{number}]") for number, item in enumerate(items)]

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self._get(key, {})
        if not isinstance(value, Mapping):
            raise BadInput(self.name_of(key), value, "a mapping")
        return value

    def text(self, key: str, default: str = "") -> str:
        value = self._get(key, default)
        if not _is_text(value):
            raise BadInput(self.name_of(key), value, "a text")
        return str(value)

    def texts(self, key: str) -> tuple[str, ...]:
        items = self._list(key)
        if not all(map(_is_text, items)):
            raise BadInput(self.name_of(key), items, "a list of texts")
        return tuple(items)

    def text_map(self, key: str) -> dict[str, str]:
        """A mapping of texts. Numbers and switches must be quoted, because YAML would change how they are written."""
        values = self.mapping(key)
        if not all(_is_text(name) and _is_text(value) for name, value in values.items()):
            raise BadInput(self.name_of(key), dict(values), "a mapping of texts (put numbers in quotes)")
        return dict(values)

    def flag(self, key: str) -> bool | None:
        value = self._get(key, None)
        if value is not None and not isinstance(value, bool):
            raise BadInput(self.name_of(key), value, "true or false")
        return value

    def whole(self, key: str, *, least: int = -_LARGEST, most: int = _LARGEST) -> int | None:
        value = self._get(key, None)
        if value is None:
            return None
        # To Python, true is a number.
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise BadInput(self.name_of(key), value, f"a whole number from {least} to {most}")
        return value

    def number(self, key: str) -> float | None:
        value = self._get(key, None)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise BadInput(self.name_of(key), value, "a number")
        return float(value)

    def duration_s(self, key: str) -> float | None:
        """Seconds of a duration such as ``90s``. None is unset, which is not ``0``."""
        value = self._get(key, None)
        if value is None:
            return None
        try:
            return parse_duration(str(value) if isinstance(value, int) and not isinstance(value, bool) else value)
        except (ValueError, AttributeError):
            accepted = "a duration such as 30s, 1m30s or 250ms, or 0 for no limit"
            raise BadInput(self.name_of(key), value, accepted) from None

    def relative_path(self, key: str) -> str:
        """A path that stays below the models folder; empty when unset."""
        value = self.text(key)
        if value and not stays_below(value):
            raise BadInput(self.name_of(key), value, "a path below the models folder, without '.' and '..'")
        return value

    def _list(self, key: str) -> list[Any]:
        value = self._get(key, [])
        if not isinstance(value, list):
            raise BadInput(self.name_of(key), value, "a list")
        return value

    def _get(self, key: str, default: Any) -> Any:
        value = self._values.get(key)
        return default if value is None else value
