"""`python -m tests.bench`: measure everything in one run, print a table, write a JSON file, and say whether it is clean."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import (
    bodies,
    cold,
    counting,
    fences,
    memory,
    node_queue,
    peers,
    report,
    staging,
    streams,
    waiting,
    warm,
)
from tests.bench.machine import Quiet, description
from tests.bench.report import Row
from tests.bench.stand import FULL, QUICK, Stand, stand

Measure = Callable[[Stand], list[Row]]
MEASURES: dict[str, Measure] = {
    "warm": warm.measure,
    "waiting": waiting.measure,
    "streams": streams.measure,
    "cold": cold.measure,
    "queue": node_queue.measure,
    "fences": fences.measure,
    "staging": staging.measure,
    "counting": counting.measure,
    "bodies": bodies.measure,
    "memory": memory.measure,
}
#: Only when named: they need a program of others.
OTHERS: dict[str, Measure] = {"peers": peers.measure}
#: What another measure has loaded before.
_NEEDS = {"waiting": "warm"}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute: fewer and shorter rounds, more noise")
    parser.add_argument("--out", type=Path, default=Path("build/bench.json"), help="the JSON file (%(default)s)")
    parser.add_argument("--only", action="append", choices=[*MEASURES, *OTHERS], help="one measure; may be repeated")
    options = parser.parse_args(arguments)
    wanted = options.only or list(MEASURES)
    wanted += [needed for name, needed in _NEEDS.items() if name in wanted and needed not in wanted]
    # A run that is told to stop ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began = time.monotonic()
    rows: list[Row] = []
    with stand(QUICK if options.quick else FULL) as made:
        made.quiet.look(2.0)
        for name, measure in {**MEASURES, **OTHERS}.items():
            if name in wanted:
                say(f"measuring: {name}")
                rows += measure(made)
                made.quiet.look()
        quiet = made.quiet
    facts = _facts(quiet, options.quick, time.monotonic() - began)
    report.write(options.out, rows, facts)
    sys.stdout.write(f"\n{report.table(rows)}\n\n{_verdict(rows, quiet)}\n{options.out}\n")
    return 0


def say(text: str) -> None:
    sys.stderr.write(f"bench: {text}\n")


def _facts(quiet: Quiet, quick: bool, seconds: float) -> dict[str, object]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": quick,
        "seconds": round(seconds, 1),
        "machine": description(),
        "load_before": quiet.loads[0],
        "load_after": quiet.loads[-1],
        "foreign_cpu": [round(share, 3) for share in quiet.foreign],
        "loop_ms": [round(value, 2) for value in quiet.loops_ms],
        "clean": not quiet.problems(),
        "problems": quiet.problems(),
    }


def _verdict(rows: Sequence[Row], quiet: Quiet) -> str:
    noise = max((row.spread for row in rows if row.ratio and row.spread is not None), default=0.0)
    missed = [f"{row.measure}: {row.what}" for row in rows if row.verdict == "MISSED"]
    lines = [
        f"load average {quiet.loads[0]:.2f} before, {quiet.loads[-1]:.2f} after; ratios of one run spread by up to {noise:.0%}",
        *(f"MISSED  {line}" for line in missed),
    ]
    problems = quiet.problems()
    if problems:
        lines += ["NOT CLEAN: the machine was not ours alone. Read ratios, not figures.", *(f"  {p}" for p in problems)]
    else:
        lines.append("clean: nobody else used the machine")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
