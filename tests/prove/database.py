"""The database stands still for a minute under warm traffic: who notices?"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field

from tests.bench.load import percentile
from tests.bench.report import Aim, Row
from tests.prove.client import Connection
from tests.prove.say import say, say_all
from tests.prove.stand import Ground, Size, exactly, ground, pause, servers_named, stopped

MODELS = 3
CLIENTS = 8
#: Between two questions of a client: traffic, and not a race.
PAUSE_S = 0.05
#: Before the stop and after it.
AROUND_S = 2.0


@dataclass
class Seen:
    """Each right answer, when it came and how long it took; and what was wrong."""

    at: list[float] = field(default_factory=list)
    took_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    over: bool = False


def prove(size: Size, seed: int) -> list[Row]:
    """Default windows: a minute is less than the lease of a frontend, and more than everything else of it."""
    with ground(frontends=2, scaled=False) as made:
        return measure(made, size)


def measure(made: Ground, size: Size) -> list[Row]:
    names = [f"warm-{number}" for number in range(MODELS)]
    made.models(names, "tokens:2")
    _all_answer(made, names)
    before = _loads(made)
    seen, stopped_at, back_at = asyncio.run(_traffic(made, names, size.database_s))
    during = [took for at, took in zip(seen.at, seen.took_s, strict=True) if stopped_at <= at < back_at]
    _all_answer(made, names)
    made.models(["cold-after"])
    began = time.monotonic()
    assert made.front.chat_until_answered("cold-after").status_code == 200
    recovered_s = time.monotonic() - began
    again = [load for load in _loads(made) if load not in before]
    broken = made.violations()
    say_all(seen.wrong + [f"loaded again: {load}" for load in again] + broken)
    return [
        _row("database stopped (SIGSTOP of every process of it)", back_at - stopped_at, "s"),
        _row("warm answers meanwhile", len(during), "answers", Aim(at_least=1)),
        _row("warm answers meanwhile, p99", percentile(during, 99) * 1000, "ms"),
        _row("errors, before, meanwhile and after", len(seen.wrong), "errors", exactly(0)),
        _row("loads of a warm model, then and after", len(again), "loads", exactly(0)),
        _row("violations found by the checker", len(broken), "", exactly(0)),
        _row("a cold model afterwards", recovered_s, "s"),
    ]


def _all_answer(made: Ground, names: list[str]) -> None:
    for frontend in made.frontends:
        for name in names:
            assert frontend.chat_until_answered(name).status_code == 200


def _loads(made: Ground) -> list[dict[str, object]]:
    """Loads of the warm models, each with the process that serves by it."""
    return made.rows(
        "SELECT j.subject, j.id, r.process_instance FROM jobs j LEFT JOIN replicas r ON r.job_id = j.id "
        "WHERE j.kind = 'model.load' AND starts_with(j.subject, 'warm-') ORDER BY j.id"
    )


async def _traffic(made: Ground, names: list[str], stop_s: float) -> tuple[Seen, float, float]:
    seen = Seen()
    clients = [
        asyncio.create_task(_client(made.frontends[number % len(made.frontends)].url, names[number % MODELS], seen))
        for number in range(CLIENTS)
    ]
    stopped_at, back_at = await asyncio.to_thread(_stop, stop_s)
    seen.over = True
    await asyncio.gather(*clients)
    return seen, stopped_at, back_at


def _stop(stop_s: float) -> tuple[float, float]:
    pause(AROUND_S)
    with stopped(servers_named("postgres")):
        stopped_at = time.monotonic()
        say(f"the database stands still for {stop_s:g} s")
        pause(stop_s)
        back_at = time.monotonic()
    pause(AROUND_S)
    return stopped_at, back_at


async def _client(url: str, model: str, seen: Seen) -> None:
    connection, never = Connection(url), asyncio.Event()
    while not seen.over:
        await _ask(connection, model, seen)
        with suppress(TimeoutError):
            await asyncio.wait_for(never.wait(), PAUSE_S)
    connection.close()


async def _ask(connection: Connection, model: str, seen: Seen) -> None:
    began = time.monotonic()
    try:
        status, text = await connection.chat(model)
    except (OSError, asyncio.IncompleteReadError) as error:
        seen.wrong.append(f"{model}: {error!r}")
        return
    if status != 200 or f"{model} says" not in text:
        seen.wrong.append(f"{model}: {status} {text[:300]}")
        return
    seen.at.append(time.monotonic())
    seen.took_s.append(seen.at[-1] - began)


def _row(what: str, value: float, unit: str, aim: Aim | None = None) -> Row:
    return Row(measure="database away", what=what, value=value, unit=unit, aim=aim)
