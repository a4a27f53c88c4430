"""A request for a loaded model: ours, an ASGI app with grpc.aio, and a direct call, side by side on one model process."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import psutil

from tests.bench import direct
from tests.bench.machine import spread
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand, cpu_s, median_of

MODEL = "bench-hot"
CONCURRENCY = (1, 32, 256)
OURS, ASGI, DIRECT = "localai", "asgi", "direct"


class _Rounds:
    """Figures of every side, level and round."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, int, str], list[float]] = defaultdict(list)

    def add(self, side: str, level: int, found: dict[str, Any], cpu: float | None = None) -> None:
        values = {"p50": found["p50_ms"], "p99": found["p99_ms"], "rate": found["requests"] / found["seconds"]}
        if cpu is not None:
            values["cpu"] = cpu * 1000 / max(1, found["requests"])
        for name, value in values.items():
            self._values[side, level, name].append(value)

    def of(self, side: str, level: int, name: str) -> list[float]:
        return self._values[side, level, name]


def measure(stand: Stand) -> list[Row]:
    address = stand.loaded(MODEL, "tokens:1")
    rounds, length = _Rounds(), stand.length
    with stand.pinned(), stand.asgi(address, MODEL) as (asgi_port, asgi):
        for _ in range(length.rounds):
            stand.quiet.look()
            for level in CONCURRENCY:
                plan = direct.Plan(address=address, identity=MODEL, connections=level, seconds=length.seconds)
                rounds.add(DIRECT, level, stand.ask_directly(plan))
                rounds.add(ASGI, level, *_front(stand, asgi, level, port=asgi_port))
                rounds.add(OURS, level, *_front(stand, stand.web(), level))
    return [*_rows(rounds), *_ratios(rounds)]


def _front(stand: Stand, front: psutil.Process, level: int, **changes: int) -> tuple[dict[str, Any], float]:
    """What a load of one level found, and the CPU seconds of the front that its answers cost."""
    plan = stand.chat(MODEL, connections=level, seconds=stand.length.seconds, **changes)
    before = cpu_s(front)
    found = stand.ask(plan)
    used = cpu_s(front) - before
    if set(found["statuses"]) != {"200"} or found["broken"]:
        raise RuntimeError(f"not every answer was 200: {found}")
    # The warm-up costs CPU too, and its answers are not counted.
    return found, used * plan.seconds / (plan.seconds + plan.warm_s)


def _rows(rounds: _Rounds) -> list[Row]:
    rows = []
    for side in (OURS, ASGI, DIRECT):
        for level in CONCURRENCY:
            for name, unit in (("p50", "ms"), ("p99", "ms"), ("rate", "requests/s"), ("cpu", "ms CPU/request")):
                values = rounds.of(side, level, name)
                if values:
                    aim = _AIMS.get((side, level, name))
                    what = f"{side}, c={level}, {_NAMES[name]}"
                    rows.append(_row(what, values, unit, aim))
    return rows


_NAMES = {"p50": "p50", "p99": "p99", "rate": "answers", "cpu": "CPU of the front"}
_AIMS = {
    (OURS, 1, "p50"): Aim(at_most=3.0),
    (OURS, 32, "cpu"): Aim(at_most=1.5),
    (OURS, 32, "rate"): Aim(at_least=600),
}


def _ratios(rounds: _Rounds) -> list[Row]:
    added = [ours - bare for ours, bare in zip(rounds.of(OURS, 1, "p50"), rounds.of(DIRECT, 1, "p50"), strict=True)]
    least = [asgi - bare for asgi, bare in zip(rounds.of(ASGI, 1, "p50"), rounds.of(DIRECT, 1, "p50"), strict=True)]
    rows = [
        _row("p50 added to the direct call, c=1", added, "ms"),
        _row("p50 the ASGI app adds, c=1", least, "ms"),
    ]
    for level in CONCURRENCY:
        for name, what in (("cpu", "CPU"), ("rate", "answers/s")):
            pairs = zip(rounds.of(OURS, level, name), rounds.of(ASGI, level, name), strict=True)
            ratios = [ours / asgi for ours, asgi in pairs if asgi]
            rows.append(_row(f"localai : asgi, c={level}, {what}", ratios, "ratio", ratio=True))
    return rows


def _row(what: str, values: list[float], unit: str, aim: Aim | None = None, *, ratio: bool = False) -> Row:
    return Row(
        measure="warm path", what=what, value=median_of(values), unit=unit, spread=spread(values), aim=aim, ratio=ratio
    )
