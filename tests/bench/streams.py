"""Streams: chunks a second and what each costs, and how soon the model process hears that a client left."""

from __future__ import annotations

import threading
import time
from typing import Any

import psutil

from tests.bench import direct
from tests.bench.machine import spread
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand, cpu_s, median_of

MODEL, SLOW = "bench-stream", "bench-slow-stream"
STREAMS, TOKENS, LEAVERS = 100, 100, 50
CANCEL_LIMIT_S = 2.0


def measure(stand: Stand) -> list[Row]:
    return [*_chunks(stand), *_cancels(stand)]


def _chunks(stand: Stand) -> list[Row]:
    address = stand.loaded(MODEL, f"tokens:{TOKENS}")
    rates: dict[str, list[float]] = {"localai": [], "asgi": [], "direct": []}
    costs: dict[str, list[float]] = {"localai": [], "asgi": []}
    seconds = stand.length.seconds * 1.5
    with stand.pinned(), stand.asgi(address, MODEL) as (asgi_port, asgi):
        for _ in range(stand.length.rounds):
            plan = direct.Plan(address=address, identity=MODEL, connections=STREAMS, seconds=seconds, stream=True)
            found = stand.ask_directly(plan)
            rates["direct"].append(found["chunks"] / found["seconds"])
            for side, front, port in (("asgi", asgi, asgi_port), ("localai", stand.web(), stand.port)):
                chunks, cpu = _front(stand, front, port, seconds)
                rates[side].append(chunks / seconds)
                costs[side].append(cpu * 1e6 / chunks)
    rows = [_row(f"{side}, {STREAMS} streams", values, "chunks/s", _AIMS.get(side)) for side, values in rates.items()]
    rows += [_row(f"{side}, CPU of the front", values, "us CPU/chunk") for side, values in costs.items()]
    for what, sides in (("chunks/s", rates), ("CPU", costs)):
        ratios = [ours / other for ours, other in zip(sides["localai"], sides["asgi"], strict=True)]
        rows.append(_row(f"localai : asgi, {what}", ratios, "ratio", ratio=True))
    return rows


_AIMS = {"localai": Aim(at_least=5000)}


def _front(stand: Stand, front: psutil.Process, port: int, seconds: float) -> tuple[float, float]:
    plan = stand.chat(MODEL, connections=STREAMS, seconds=seconds, stream=True, port=port)
    before = cpu_s(front)
    found = stand.ask(plan)
    used = cpu_s(front) - before
    if set(found["statuses"]) - {"200"} or found["broken"]:
        raise RuntimeError(f"a stream broke: {found}")
    return max(1, found["chunks"]), used * seconds / (seconds + plan.warm_s)


def _row(what: str, values: list[float], unit: str, aim: Aim | None = None, *, ratio: bool = False) -> Row:
    return Row(
        measure="streams", what=what, value=median_of(values), unit=unit, spread=spread(values), aim=aim, ratio=ratio
    )


def _cancels(stand: Stand) -> list[Row]:
    """All clients leave at once; the model process says of each call that it ended early."""
    stand.loaded(SLOW, "tokens:10000", "token_delay:100ms")
    before = _ended_early(stand)
    found: dict[str, Any] = stand.ask(
        stand.chat(SLOW, connections=LEAVERS, seconds=30.0, warm_s=0.0, stream=True, abandon=True)
    )
    pause, until = threading.Event(), found["ended_at"] + CANCEL_LIMIT_S * 5
    while (seen := _ended_early(stand) - before) < LEAVERS and time.monotonic() < until:
        pause.wait(0.01)
    took = time.monotonic() - found["ended_at"]
    return [
        Row(
            measure="cancels",
            what=f"seen by the model process, of {LEAVERS}",
            value=seen,
            unit="streams",
            aim=Aim(at_least=LEAVERS),
        ),
        Row(
            measure="cancels", what="until the last one was seen", value=took, unit="s", aim=Aim(at_most=CANCEL_LIMIT_S)
        ),
    ]


def _ended_early(stand: Stand) -> int:
    logs = (stand.state / "worker").rglob("*.log")
    return sum(path.read_text(errors="replace").count("call ended early") for path in logs)
