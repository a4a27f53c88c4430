"""`python -m tests.prove`: run the long proofs, print a table, write build/prove.json, and fail where one does not hold."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import report
from tests.bench.machine import description
from tests.bench.report import Row
from tests.prove import (
    bus,
    cancels,
    crashes,
    database,
    frozen_worker,
    loads,
    owner_kills,
    paused_owner,
    schedules,
)
from tests.prove.say import say
from tests.prove.stand import FULL, SIZES, Size, exactly


@dataclass(frozen=True, slots=True)
class Proof:
    """One proof, and about how long it takes in full on two cores."""

    run: Callable[[Size, int], list[Row]]
    minutes: float


PROOFS: dict[str, Proof] = {
    "loads": Proof(loads.prove, 12),
    "owner-kills": Proof(owner_kills.prove, 12),
    "cancels": Proof(cancels.prove, 7),
    "frozen-worker": Proof(frozen_worker.prove, 5),
    "paused-owner": Proof(paused_owner.prove, 6),
    "database": Proof(database.prove, 2),
    "bus": Proof(bus.prove, 3),
    "crashes": Proof(crashes.prove, 11),
    "schedules": Proof(schedules.prove, 40),
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--size", choices=[*SIZES], default="full", help="how much of everything (%(default)s)")
    parser.add_argument("--only", action="append", choices=[*PROOFS], help="one proof; may be repeated")
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn, and the simulator's first (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/prove.json"), help="the JSON file (%(default)s)")
    options = parser.parse_args(arguments)
    # A run that is told to stop ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    size = SIZES[options.size]
    wanted = [name for name in PROOFS if not options.only or name in options.only]
    if size is FULL:
        say(f"about {sum(PROOFS[name].minutes for name in wanted):.0f} minutes on two cores")
    rows: list[Row] = []
    for name in wanted:
        rows += _timed(name, size, options.seed)
        # What is known is kept, however the next one ends.
        report.write(options.out, rows, _facts(options.size, options.seed))
    missed = [f"{row.measure}: {row.what}" for row in rows if row.verdict == "MISSED"]
    lines = [
        *(f"MISSED  {line}" for line in missed),
        "proven" if not missed else f"{len(missed)} missed",
        str(options.out),
    ]
    sys.stdout.write(f"\n{report.table(rows)}\n\n" + "\n".join(lines) + "\n")
    return 1 if missed else 0


def _timed(name: str, size: Size, seed: int) -> list[Row]:
    """The rows of a proof and how long it took; one that cannot be carried out is missed."""
    say(f"proving: {name}")
    began = time.monotonic()
    try:
        rows = PROOFS[name].run(size, seed)
    except Exception:  # noqa: BLE001  a proof that fails ends no other
        say(traceback.format_exc())
        rows = [Row(measure=name, what="carried out", value=0, unit="", aim=exactly(1))]
    return [*rows, Row(measure=name, what="took", value=(time.monotonic() - began) / 60, unit="min")]


def _facts(size: str, seed: int) -> dict[str, object]:
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "size": size,
        "sizes": asdict(SIZES[size]),
        "machine": description(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
