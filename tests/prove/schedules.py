"""The simulator's schedules, more of them than CI has time for."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.bench.report import Aim, Row
from tests.embedded_servers import ROOT
from tests.prove.say import say_all
from tests.prove.stand import Size, exactly

_FIRST_LINE = re.compile(r"(\d+) schedules from seed (\d+) in ([\d.]+) s \([^)]*\): (\d+) moves")


def prove(size: Size, seed: int) -> list[Row]:
    command = [sys.executable, "-m", "tests.simulator.run", "--seeds", str(size.schedules), "--minutes", "0"]
    done = subprocess.run([*command, "--first", str(seed)], cwd=ROOT, capture_output=True, text=True, check=False)
    schedules, moves, broken = read(done.stdout)
    if done.returncode != 0:
        say_all((done.stdout + done.stderr).splitlines()[-200:])
    return [
        _row(f"schedules from seed {seed}", schedules, exactly(size.schedules)),
        _row("moves of rows in them", moves),
        _row("schedules that broke a rule", broken if done.returncode == 0 else max(broken, 1), exactly(0)),
    ]


def read(text: str) -> tuple[int, int, int]:
    """Schedules, moves and broken schedules of what the simulator has printed."""
    found = _FIRST_LINE.search(text)
    broken = len(set(re.findall(r"^seed (\d+): ", text, re.MULTILINE)))
    return (int(found[1]), int(found[4]), broken) if found else (0, 0, max(broken, 1))


def _row(what: str, value: float, aim: Aim | None = None) -> Row:
    return Row(measure="simulator", what=what, value=value, unit="", aim=aim)
