"""The whole crash sweep: a process of ours dies at each point, and what is left is what the table says."""

from __future__ import annotations

from tests.acceptance.crash_sweep import Sweep
from tests.acceptance.crash_table import CASES
from tests.bench.report import Aim, Row
from tests.embedded_servers import open_folder
from tests.prove.say import say, say_all
from tests.prove.stand import Size, exactly


def prove(size: Size, seed: int) -> list[Row]:
    cases = [case for case in CASES if size.whole_sweep or case.short]
    wrong = []
    with open_folder() as folder:
        sweep = Sweep(folder)
        try:
            for case in cases:
                try:
                    say(f"{case.point}: {sweep.run(case)}")
                except AssertionError as error:
                    wrong.append(f"{case.point}: {error}")
                    say(wrong[-1])
        finally:
            sweep.close()
    say_all(wrong)
    return [
        _row("points tried", len(cases)),
        _row("outcomes that are not in the table", len(wrong), exactly(0)),
    ]


def _row(what: str, value: float, aim: Aim | None = None) -> Row:
    return Row(measure="crash points", what=what, value=value, unit="", aim=aim)
