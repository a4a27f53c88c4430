"""How does a command print its result: a table for people, JSON for programs?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

#: Longest text of one cell; an error's whole text is in `jobs show` and in the JSON.
_CELL = 60

output_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the result is printed.",
)


def print_json(value: Any) -> None:
    """The value as the server sent it."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Callable[[Mapping[str, Any]], Any]]) -> str:
    """Rows as aligned text: ``columns`` maps a heading to what it shows of a row."""
    lines = [list(columns), *([cell(show(row)) for show in columns.values()] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def details(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The named fields of one row that have a value, one a line."""
    shown = [(name.replace("_", " "), row[name]) for name in names if row.get(name) not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown)


def cell(value: Any) -> str:
    """One value on one line."""
    if value is None or value == "":
        return "-"
    text = " ".join(str(value).split())
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."


def size(count: Any) -> str:
    """A number of bytes for people."""
    if not isinstance(count, int | float):
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
