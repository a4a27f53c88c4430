"""How does a command print its result: a table for people, JSON for programs?"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from localai.escapes import encodable, escaped, escaped_json

#: Longest text of one cell; an error's whole text is in `jobs show` and in the JSON.
_CELL = 60

#: An id as the server writes it; its first part is enough to tell two apart on a line.
_ID = re.compile(r"([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

output_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the result is printed.",
)


def echo(text: str = "", *, err: bool = False) -> None:
    """Print a text in which names, errors or messages of the server stand; its control characters are escaped."""
    click.echo(escaped(text), err=err)


def echo_coloured(text: str) -> None:
    """Print what `table` and `details` made: their cells are escaped, and only our own colours are left."""
    click.echo(text)


def write_foreign(text: str) -> None:
    """Write an answer or log lines: escaped on a terminal, exact in a file or a pipe."""
    sys.stdout.write(escaped(text) if sys.stdout.isatty() else encodable(text))
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """The value as the server sent it."""
    click.echo(escaped_json(json.dumps(value, indent=2, ensure_ascii=False)))


def print_json_line(value: Any) -> None:
    """The value on one line, at once: for what comes bit by bit."""
    click.echo(escaped_json(json.dumps(value, ensure_ascii=False)))


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, Callable[[Mapping[str, Any]], Any]],
    styles: Mapping[str, Callable[[str], str]] | None = None,
    *,
    whole: Collection[str] = (),
) -> str:
    """Rows as aligned text: ``columns`` maps a heading to what it shows of a row, ``styles`` to its colour.

    Texts of the columns in ``whole`` are not cut.
    """
    lines = [list(columns)]
    lines += [[cell(show(row), None if name in whole else _CELL) for name, show in columns.items()] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    padded = [[text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines]
    for line in padded:
        line[-1] = line[-1].rstrip()
    for heading, style in (styles or {}).items():
        index = list(columns).index(heading)
        for line in padded[1:]:
            line[index] = style(line[index])
    return "\n".join("  ".join(line).rstrip() for line in padded)


#: Colours of the words for how something is. They are stripped where the output is no terminal, and with NO_COLOR.
_COLOURS = {
    "green": ("succeeded", "loaded", "healthy"),
    "red": ("failed", "quarantined", "unhealthy", "offline"),
    "yellow": (
        "queued",
        "running",
        "pending",
        "installing",
        "staging",
        "loading",
        "unloading",
        "draining",
        "cancelled",
    ),
}
_COLOUR_OF = {word: colour for colour, words in _COLOURS.items() for word in words}


def state_style(text: str) -> str:
    """A state in its colour; padding stays plain."""
    word = text.rstrip()
    colour = _COLOUR_OF.get(word)
    return click.style(word, fg=colour) + text[len(word) :] if colour else text


def details(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The named fields of one row that have a value, one a line; further lines of a value are set in."""
    shown = [(name.replace("_", " "), row[name]) for name in names if row.get(name) not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    further = "\n" + " " * (width + 2)
    return "\n".join(f"{name.ljust(width)}  {escaped(str(value)).replace(chr(10), further)}" for name, value in shown)


def moment(text: Any, *, exact: bool = False) -> str:
    """A time of the server in this machine's zone, to the second or exactly to the millisecond."""
    try:
        shown = datetime.fromisoformat(str(text)).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")
    except ValueError:
        return str(text) if text else ""
    return shown[:-3] if exact else shown[:-7]


def facts(values: Any) -> str:
    """A mapping as `name: value` after `name: value`; what is not known is left out."""
    if not isinstance(values, Mapping):
        return "" if values is None else str(values)
    shown = [(name.replace("_", " "), value) for name, value in values.items() if value not in (None, "", [], {})]
    return ", ".join(f"{name}: {_plain(value)}" for name, value in shown)


def _plain(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())


def cell(value: Any, most: int | None = _CELL) -> str:
    """One value on one line."""
    if value is None or value == "":
        return "-"
    text = escaped(" ".join(str(value).split()), lines=False)
    return text if most is None or len(text) <= most else text[: most - 3] + "..."


def short(text: Any) -> str:
    """A text with the first part of each id in it only."""
    return _ID.sub(r"\1", str(text or ""))


def size(count: Any) -> str:
    """A number of bytes for people."""
    if not isinstance(count, int | float):
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
