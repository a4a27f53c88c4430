"""How do the figures of a run become a table, a file and a verdict?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What a figure should be."""

    at_most: float | None = None
    at_least: float | None = None

    def met_by(self, value: float) -> bool:
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        if self.at_most is not None and self.at_most == self.at_least:
            return f"= {self.at_most:g}"
        return f"<= {self.at_most:g}" if self.at_most is not None else f">= {self.at_least:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. ``spread`` is (largest - smallest) / median of the rounds it is the median of."""

    measure: str
    what: str
    value: float
    unit: str
    spread: float | None = None
    aim: Aim | None = None
    #: A ratio of two sides of one run says more than a figure: it is what two runs agree on.
    ratio: bool = False

    @property
    def verdict(self) -> str:
        return "" if self.aim is None else "met" if self.aim.met_by(self.value) else "MISSED"


def table(rows: Sequence[Row]) -> str:
    """The rows as people read them."""
    cells = [("measure", "what", "value", "unit", "spread", "aim", "")]
    for row in rows:
        noise = f"{row.spread:.0%}" if row.spread is not None else ""
        cells.append((row.measure, row.what, _number(row.value), row.unit, noise, str(row.aim or ""), row.verdict))
    widths = [max(len(cell[column]) for cell in cells) for column in range(len(cells[0]))]
    right = {2, 4}
    lines = []
    for cell in cells:
        padded = [t.rjust(w) if i in right else t.ljust(w) for i, (t, w) in enumerate(zip(cell, widths, strict=True))]
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def write(path: Path, rows: Sequence[Row], facts: Mapping[str, Any]) -> None:
    """The JSON file of a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = [{**asdict(row), "verdict": row.verdict} for row in rows]
    path.write_text(json.dumps({**facts, "rows": listed}, indent=1) + "\n", encoding="utf-8")
