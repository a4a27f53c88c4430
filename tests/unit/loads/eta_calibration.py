"""How right are `eta_low`, `eta_seconds` and `eta_high`? Measured on synthetic loads, printed in `docs/reference/eta.md`."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from localai.generated_pages import page_command
from localai.loads.eta_rules import LEAST_LOADS, eta
from tests.unit.loads.synthetic_loads import SHAPES, Course, Shape, history_of

SEED = 20_260_101
#: Finished loads that are known, and moments of a load at which its ETA is asked, as parts of what it takes.
KNOWN = (3, 5, 10, 30)
ELAPSED = (0.02, 0.25, 0.5, 0.75, 0.9)
LOADS = 100
#: How often the bounds may hold what happened: of all ETAs, of one kind of load, of one moment. Promised are four of five.
ALL, CELL, MOMENT = (0.75, 0.88), (0.70, 0.97), (0.70, 0.90)
#: At least this part of the questions gets an ETA.
GIVEN = 0.9


@dataclass(frozen=True, slots=True)
class Answer:
    """One ETA that was asked for, and what happened then."""

    shape: str
    known: int
    elapsed: float
    #: Whether the rest lay between the bounds; None where there was no ETA.
    inside: bool | None
    #: How far the ETA was from the rest, as a share of the rest.
    off: float


def measure(loads: int = LOADS) -> list[Answer]:
    """Every ETA of every load; the same for the same seed."""
    return [answer for name, shape in SHAPES.items() for known in KNOWN for answer in _cell(name, shape, known, loads)]


def _cell(name: str, shape: Shape, known: int, loads: int) -> Iterable[Answer]:
    draw = random.Random(f"{SEED} {name} {known}")
    for number in range(loads):
        past = history_of(shape, draw, known)
        course = Course.draw(shape, draw, number)
        for elapsed in ELAPSED:
            at_s = elapsed * course.total_s
            rest, said = course.total_s - at_s, eta(course.at(at_s), past)
            if said is None or said.low is None or said.high is None:
                yield Answer(name, known, elapsed, None, 0.0)
            else:
                yield Answer(name, known, elapsed, said.low <= rest <= said.high, abs(said.seconds - rest) / rest)


def coverage(answers: Iterable[Answer]) -> float:
    """The share of ETAs whose bounds held what happened."""
    said = [answer.inside for answer in answers if answer.inside is not None]
    return sum(said) / len(said) if said else 0.0


def given(answers: Sequence[Answer]) -> float:
    """The share of questions that got an ETA."""
    return sum(answer.inside is not None for answer in answers) / len(answers)


def error(answers: Iterable[Answer]) -> float:
    """The median distance of ETA and rest, as a share of the rest."""
    offs = [answer.off for answer in answers if answer.inside is not None]
    return median(offs) if offs else 0.0


def outside_band(answers: Sequence[Answer]) -> list[str]:
    """What breaks the promise of the page, in words."""
    told = []
    cells = [(f"{name}, {known} known loads", CELL, _of(answers, name, known)) for name in SHAPES for known in KNOWN]
    moments = [(f"{elapsed:.0%} elapsed", MOMENT, _at(answers, elapsed)) for elapsed in ELAPSED]
    for what, (least, most), chosen in [("all", ALL, list(answers)), *cells, *moments]:
        if not least <= coverage(chosen) <= most:
            told.append(f"{what}: the bounds hold {coverage(chosen):.0%}, promised are {least:.0%} to {most:.0%}")
        if given(chosen) < GIVEN:
            told.append(f"{what}: {given(chosen):.0%} of the questions get an ETA, promised are {GIVEN:.0%}")
    return told


def page() -> str:
    """The text of `docs/reference/eta.md`."""
    answers = measure()
    lines = [_HEAD, "| loads | known | got an ETA | held by the bounds | ETA off by |", "|---|---|---|---|---|"]
    for name in SHAPES:
        lines += [f"| {name} | {known} | {_figures(_of(answers, name, known))} |" for known in KNOWN]
    lines += [f"| **all** | | {_figures(answers)} |", "", _MOMENTS]
    lines += ["| elapsed | got an ETA | held by the bounds | ETA off by |", "|---|---|---|---|"]
    lines += [f"| {elapsed:.0%} | {_figures(_at(answers, elapsed))} |" for elapsed in ELAPSED]
    shapes = [f"- **{name}**: {(shape.__doc__ or '').strip()}" for name, shape in SHAPES.items()]
    return "\n".join([*lines, "", "The loads:", "", *shapes]) + "\n"


def _of(answers: Sequence[Answer], name: str, known: int) -> list[Answer]:
    return [answer for answer in answers if (answer.shape, answer.known) == (name, known)]


def _at(answers: Sequence[Answer], elapsed: float) -> list[Answer]:
    return [answer for answer in answers if answer.elapsed == elapsed]


def _figures(answers: Sequence[Answer]) -> str:
    return f"{given(answers):.0%} | {coverage(answers):.0%} | {error(answers):.0%}"


_HEAD = f"""\
# How long a load still takes

Made by `python -m tests.unit.loads.eta_calibration --write docs/reference/eta.md`; do not edit.

`GET /api/models/{{id}}/load-status` and the `loading` object of a 503 say how long a load still takes, in whole seconds:

| field | |
|---|---|
| `eta_seconds` | the likely rest. `Retry-After` is made from it, between 5 and 300 |
| `eta_low`, `eta_high` | four of five loads end between them; one in ten is quicker, one in ten slower |

All three are left out rather than guessed. They are there when at least {LEAST_LOADS} finished loads are comparable: the same
model and backend, about the same bytes (10 %), on a node of the same class; and not while no node is chosen yet. Node classes
are `gpu <vendor> <compute capability>` and `cpu <cores>`; `GET /api/nodes` shows them. Without comparable loads there is only
`eta_seconds`, only while files are staged, and it says when they will be there: the rest at this transfer's own rate.

- **Phases that move no bytes** (`pending`, `installing`, `loading`): the comparable loads that took longer in this phase than
  this one has already, each somewhat blurred, and what they had before them. So an ETA grows where quick loads are out of the
  question, and is left out again for a load that takes longer than nearly all that are known.
- **`staging`**: the rest at this transfer's own rate, then what comparable loads took after their staging.

What each phase took is written in the transaction in which a load succeeds (table `load_durations`), the last 50 for each model
and node class. A status of a cold load reads them with one statement and keeps them for ten seconds; a request for a loaded
model reads nothing.

## Calibration

Measured on synthetic loads (`tests/unit/loads/synthetic_loads.py`, seed {SEED}): {LOADS} loads for each line, each asked at
{", ".join(f"{elapsed:.0%}" for elapsed in ELAPSED)} of its time. *Known* is the number of finished loads of the same kind. *Off by* is
the median distance of `eta_seconds` and the real rest, as a part of that rest. A test fails when the bounds hold less than
{ALL[0]:.0%} or more than {ALL[1]:.0%} of all, {CELL[0]:.0%} to {CELL[1]:.0%} of a line, {MOMENT[0]:.0%} to {MOMENT[1]:.0%} of a moment, or when fewer than
{GIVEN:.0%} get an ETA.
"""
_MOMENTS = (
    "By how far the load was, over all lines. Near its end the rest is small, and every distance a large part of it.\n"
)


if __name__ == "__main__":
    sys.exit(page_command("tests.unit.loads.eta_calibration", page))
