"""What counting costs: an answer, the file of a process, a scrape."""

from __future__ import annotations

from tests.bench.report import Row
from tests.bench.stand import OTHER_CORE, Stand, run

MODELS = 20


def measure(stand: Stand) -> list[Row]:
    found = run("tests.bench.counter", {"answers": 50_000, "models": MODELS}, OTHER_CORE)
    rows = [
        ("one warm answer", found["answer_us"], "us CPU"),
        (f"the file of a process with {MODELS} models, every 5 s", found["write_ms"], "ms CPU"),
        (f"a scrape with {MODELS} models", found["scrape_ms"], "ms CPU"),
    ]
    return [Row(measure="counting", what=what, value=value, unit=unit) for what, value, unit in rows]
