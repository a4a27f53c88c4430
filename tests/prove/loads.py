"""A thousand times: fifty first requests over three frontends begin one load, and all are answered by it."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

from tests.bench.load import percentile
from tests.bench.report import Aim, Row
from tests.prove.client import Connection
from tests.prove.say import say_all
from tests.prove.stand import Ground, Size, exactly, ground

FRONTENDS = 3
#: Crowds at a time, each for a model of its own: a round is mostly the start of a process.
LANES = 2
#: A model is asked for again when it is gone; as many for each lane.
MODELS = 3 * LANES
LOAD_DELAY = "100ms"


@dataclass
class Seen:
    """What clients saw."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    rounds_s: list[float] = field(default_factory=list)


def prove(size: Size, seed: int) -> list[Row]:
    with ground(frontends=FRONTENDS) as made:
        return measure(made, size)


def measure(made: Ground, size: Size) -> list[Row]:
    """On a cluster that has these frontends; what else was loaded there does not count."""
    made.models([f"crowd-{number}" for number in range(MODELS)], f"load_delay:{LOAD_DELAY}", "tokens:1")
    began = time.monotonic()
    seen = asyncio.run(_rounds(made, size))
    took_s = time.monotonic() - began
    loads = made.loads_of("crowd-")
    broken = made.violations()
    say_all(seen.wrong + broken)
    succeeded = sum(load["state"] == "succeeded" and load["attempts"] == 1 for load in loads)
    return [
        _row("rounds", size.rounds, "rounds"),
        _row("loads that succeeded with their first owner", succeeded, "loads", exactly(size.rounds)),
        _row("loads of any state", len(loads), "loads", exactly(size.rounds)),
        _row("right answers", seen.right, "answers", exactly(size.rounds * size.crowd)),
        _row("violations found by the checker", len(broken), "", exactly(0)),
        _row("a round, p50", percentile(seen.rounds_s, 50), "s"),
        _row("a round, p99", percentile(seen.rounds_s, 99), "s"),
        _row("all rounds", took_s / 60, "min"),
    ]


async def _rounds(made: Ground, size: Size) -> Seen:
    seen = Seen()
    await asyncio.gather(*(_lane(made, range(lane, size.rounds, LANES), size.crowd, seen) for lane in range(LANES)))
    return seen


async def _lane(made: Ground, numbers: range, crowd: int, seen: Seen) -> None:
    """One crowd, round after round; a model is unloaded while the crowd asks for the next one."""
    clients = [Connection(made.frontends[number % len(made.frontends)].url) for number in range(crowd)]
    unloads: dict[str, asyncio.Task[None]] = {}
    try:
        for number in numbers:
            model = f"crowd-{number % MODELS}"
            if model in unloads:
                await unloads.pop(model)
            began = time.monotonic()
            await asyncio.gather(*(_one(client, model, seen) for client in clients))
            seen.rounds_s.append(time.monotonic() - began)
            unloads[model] = asyncio.create_task(_unload(made, clients[0].url, model))
        await asyncio.gather(*unloads.values())
    finally:
        for client in clients:
            client.close()


async def _one(client: Connection, model: str, seen: Seen) -> None:
    try:
        status, text = await client.chat(model)
    except (OSError, asyncio.IncompleteReadError) as error:
        seen.wrong.append(f"{model}: {error!r}")
        return
    if status == 200 and f"{model} says" in text:
        seen.right += 1
    else:
        seen.wrong.append(f"{model}: {status} {text[:300]}")


async def _unload(made: Ground, url: str, model: str) -> None:
    """Unload a model, and return when its process is gone."""
    client = Connection(url)
    try:
        status, text = await client.ask("/backend/shutdown", {"model": model})
        if status != 202:
            raise AssertionError(f"the unload of {model} was answered {status} {text}")
        await asyncio.to_thread(made.wait_over, json.loads(text)["job_id"])
    finally:
        client.close()


def _row(what: str, value: float, unit: str, aim: Aim | None = None) -> Row:
    return Row(measure="loads", what=what, value=value, unit=unit, aim=aim)
