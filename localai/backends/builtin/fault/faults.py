"""Which faults the options of a model ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds(text: str) -> float:
    """Seconds of ``1m30s``, ``250ms`` or a bare number of seconds."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError("a duration such as 2s, 1m30s or 250ms")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def count(text: str) -> int:
    """A whole number, zero or more."""
    if not re.fullmatch(r"\d+", text):
        raise ValueError("a whole number")
    return int(text)


def switch(text: str) -> bool:
    """True or false."""
    if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError("true or false")
    return text.lower() in ("true", "1", "yes")


def lines(text: str) -> str:
    """A text; ``\\n`` in it starts a new line, because an option is one line."""
    return text.replace("\\n", "\n")


def names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


@dataclass(frozen=True)
class Faults:
    """Everything the backend can be told to do. Durations are in seconds; None and zero mean: behave."""

    # Before LoadModel: read from the environment only.
    stderr: str = ""
    bind_delay: float = 0.0
    start_exit: int | None = None
    # At LoadModel, in this order.
    load_delay: float = 0.0
    kill_parent: bool = False
    fork_child: bool = False
    require_files: tuple[str, ...] = ()
    map_model: bool = False
    load_fail: str = ""
    # At each answer.
    wrong_identity: bool = False
    resource_exhausted_for: float = 0.0
    hang_in_predict: bool = False
    hold_interpreter: float = 0.0
    first_token_delay: float = 0.0
    token_delay: float = 0.0
    tokens: int = 8
    crash_after: int | None = None
    emit_tool_call: str = ""
    forget: int | None = None
    # At the end.
    ignore_sigterm: bool = False


_PARSERS: dict[str, Callable[[str], Any]] = {
    "stderr": lines,
    "load_fail": lines,
    "emit_tool_call": str,
    "require_files": names,
    **dict.fromkeys(
        (
            "bind_delay",
            "load_delay",
            "resource_exhausted_for",
            "hold_interpreter",
            "first_token_delay",
            "token_delay",
        ),
        seconds,
    ),
    **dict.fromkeys(("start_exit", "tokens", "crash_after", "forget"), count),
    **dict.fromkeys(
        ("kill_parent", "fork_child", "map_model", "wrong_identity", "hang_in_predict", "ignore_sigterm"), switch
    ),
}


def parse(options: Iterable[str]) -> Faults:
    """The faults of a list of ``name:value``. Raises ValueError that names the option and what is accepted."""
    known = {field.name for field in fields(Faults)}
    found: dict[str, Any] = {}
    for option in options:
        name, colon, text = option.partition(":")
        name, text = name.strip(), text.strip()
        if not name and not colon:
            continue
        if name not in known:
            raise ValueError(f"option {name!r} is not known; known are {', '.join(sorted(known))}")
        try:
            found[name] = _PARSERS[name](text)
        except ValueError as error:
            raise ValueError(f"option {name}: {text!r} cannot be used; accepted: {error}") from None
    return Faults(**found)
