"""How a proof tells what it is doing, and what it found, beside its table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: More of one kind say no more.
_MOST = 20


def say(text: str) -> None:
    sys.stderr.write(f"prove: {text}\n")


def say_all(problems: Sequence[str]) -> None:
    for problem in problems[:_MOST]:
        say(problem)
    if len(problems) > _MOST:
        say(f"and {len(problems) - _MOST} more")
