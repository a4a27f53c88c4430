"""The protocol against a queue that loses, doubles and forgets, and processes that are killed and frozen at any line.

Three control processes, two agents, hundreds of jobs of two kinds: work that lives in its owner (`stand-in`), and loads
whose work runs on an agent (`model.load`, with hold and stop window). Nothing may be lost, and nothing applied twice.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from localai.clock import boottime
from localai.db import migrate
from localai.db.engine import make_engine
from localai.errors import StorageUnavailable
from localai.jobs.ports import NewJob
from tests.embedded_servers import Servers, clean_environment
from tests.integration.jobs.kill_parts import ALL_KINDS, EXTRA_SCHEMA, LEASE_S, WINDOWS
from tests.integration.world import World
from tests.loopback import ValkeyServer
from tests.simulator.checker import assert_clean
from tests.simulator.history import Bounds
from tests.simulator.pg_history import read_history

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]

SEED = int(os.environ.get("KILL_TEST_SEED", "20260101"))
LOCAL_JOBS, MODELS, CHAOS_S, QUIET_LIMIT_S = 240, 40, 25.0, 240.0


class Fleet:
    """The processes of the test, which it kills, freezes and starts again."""

    def __init__(self, database_url: str, broker_url: str, folder: Path) -> None:
        self._urls, self._folder = (database_url, broker_url), folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0
        self.names = ["control-1", "control-2", "control-3", "agent-1", "agent-2"]

    def start(self, name: str) -> None:
        self._starts += 1
        module = "kill_control" if name.startswith("control") else "kill_agent"
        command = [sys.executable, "-m", f"tests.integration.jobs.{module}", *self._urls, str(SEED + self._starts)]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*command, name], stdin=subprocess.PIPE, stdout=log, stderr=log, env=clean_environment()
            )

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()

    def freeze(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def end(self) -> None:
        for name in list(self._processes):
            self.thaw(name)
            self.kill(name)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self._folder.glob("*.log")))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def world(servers: Servers) -> Iterator[World]:
    with servers.new_database() as url:
        engine = make_engine(url, application="kill-test", pool_size=10)
        migrate.upgrade(engine)
        world = World(engine, WINDOWS, ALL_KINDS)
        world.sql(EXTRA_SCHEMA)
        yield world
        world.close()


def test_kills_freezes_wipes_lost_and_doubled_messages_lose_nothing_and_apply_nothing_twice(
    world: World, broker: ValkeyServer, tmp_path: Path
) -> None:
    url = world.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    fleet, chaos = Fleet(url, broker.url, tmp_path), Counter[str]()
    try:
        for name in fleet.names:
            fleet.start(name)
        jobs = [world.jobs.request(NewJob(kind="stand-in", subject=f"work-{n}"))[1].id for n in range(LOCAL_JOBS)]
        assert len(set(jobs)) == LOCAL_JOBS
        _make_trouble(world, fleet, broker, chaos)
        took_s = _wait_until_quiet(world, fleet)
    finally:
        fleet.end()
    _nothing_lost_and_nothing_twice(world)
    _every_hold_was_respected(world)
    _one_terminal_event_each(world)
    _no_work_outlived_its_hold(world)
    assert_clean(read_history(world.unit_of_work, Bounds(stop_s=WINDOWS.stop_s, report_s=WINDOWS.report_s)))
    assert _enough(chaos), chaos
    _tell(world, chaos, took_s)


def _enough(chaos: Counter[str]) -> bool:
    return chaos["kill"] >= 5 and chaos["freeze"] >= 2 and chaos["wipe"] >= 2


def _make_trouble(world: World, fleet: Fleet, broker: ValkeyServer, chaos: Counter[str]) -> None:
    """Half a minute of it, a blow about every second; the loads are asked for all the while. A slow machine gets more."""
    draw, pace = random.Random(SEED), threading.Event()
    frozen: dict[str, float] = {}
    flush = redis.Redis.from_url(broker.url)
    began = boottime()
    while boottime() - began < CHAOS_S or (not _enough(chaos) and boottime() - began < 4 * CHAOS_S):
        _ask_for_loads(world)
        pace.wait(draw.uniform(0.3, 0.9))
        for name in [name for name, until in frozen.items() if until < boottime()]:
            fleet.thaw(name)
            del frozen[name]
        name, blow = draw.choice(fleet.names), draw.choice(["kill", "kill", "freeze", "wipe"])
        if name in frozen:
            continue
        chaos[blow] += 1
        if blow == "kill":
            fleet.kill(name)
            fleet.start(name)
        elif blow == "freeze":
            fleet.freeze(name)
            frozen[name] = boottime() + (2.5 * LEASE_S if name.startswith("control") else LEASE_S)
        else:
            flush.flushall()
    for name in frozen:
        fleet.thaw(name)
    flush.close()


def _ask_for_loads(world: World) -> set[str]:
    """Ask for every model, as waiters do; those that serve."""
    serving = set()
    for number in range(MODELS):
        try:
            if world.loads.request(f"model-{number}", "r1").state == "loaded":
                serving.add(f"model-{number}")
        except StorageUnavailable:
            continue
    return serving


QUIET = """
SELECT (SELECT count(*) FROM jobs WHERE state IN ('queued', 'running') OR stop_state = 'pending') AS open,
       (SELECT count(*) FROM replicas WHERE state <> 'loaded') AS unfinished
"""


def _wait_until_quiet(world: World, fleet: Fleet) -> float:
    """From whatever state is left, quiet must be reached without anybody's help."""
    began, pace = boottime(), threading.Event()
    while True:
        serving = _ask_for_loads(world)
        (row,) = world.sql(QUIET)
        if len(serving) == MODELS and not row["open"] and not row["unfinished"]:
            return boottime() - began
        if boottime() - began > QUIET_LIMIT_S:
            stuck = world.sql(
                "SELECT kind, subject, state, stop_state, op_state, error FROM jobs WHERE state IN "
                "('queued', 'running') OR stop_state = 'pending' LIMIT 20"
            )
            raise AssertionError(f"not quiet: {row}, {len(serving)} serve, {stuck}\n{fleet.logs()}")
        pace.wait(0.3)


def _nothing_lost_and_nothing_twice(world: World) -> None:
    rows = world.sql("SELECT state, count(*) AS n FROM jobs WHERE kind = 'stand-in' GROUP BY state")
    assert {row["state"]: row["n"] for row in rows} == {"succeeded": LOCAL_JOBS}
    twice = world.sql("SELECT job_id FROM applied GROUP BY job_id HAVING count(*) > 1")
    assert twice == []
    (row,) = world.sql("SELECT count(*) AS n FROM applied WHERE kind = 'stand-in'")
    assert row["n"] == LOCAL_JOBS
    late = world.sql("SELECT a.job_id FROM applied a JOIN jobs j ON j.id = a.job_id WHERE a.generation <> j.generation")
    assert late == [], "an old generation took effect"
    slots = world.sql("SELECT model FROM replicas GROUP BY model HAVING count(*) > 1")
    assert slots == [], "a model was loaded twice"


HOLDS = """
SELECT a.id, a.subject, a.hold_until, b.id AS next, b.created_at
  FROM jobs a JOIN jobs b ON b.kind = a.kind AND b.subject = a.subject AND b.generation > a.generation
 WHERE a.kind = 'model.load' AND (a.hold_until > b.created_at OR b.created_at < a.finished_at)
"""


def _every_hold_was_respected(world: World) -> None:
    assert world.sql(HOLDS) == [], "an attempt began before the hold of an earlier one was over"
    too_long = world.sql(
        "SELECT id FROM jobs WHERE hold_until > finished_at + make_interval(secs => %(s)s)", s=WINDOWS.stop_s + 0.01
    )
    assert too_long == [], "a hold ends by its bound"


def _one_terminal_event_each(world: World) -> None:
    ends = "('succeeded', 'failed', 'cancelled')"
    odd = world.sql(
        f"SELECT j.id, count(e.id) AS n FROM jobs j LEFT JOIN job_events e ON e.job_id = j.id AND e.event IN {ends} "
        f"GROUP BY j.id, j.state HAVING count(e.id) <> 1"
    )
    assert odd == []


OUTLIVED = """
SELECT e.job_id, e.ended, b.created_at
  FROM executions e JOIN jobs a ON a.id = e.job_id
  JOIN jobs b ON b.kind = a.kind AND b.subject = a.subject AND b.generation > a.generation
 WHERE a.kind = 'model.load' AND a.state <> 'succeeded' AND e.ended > b.created_at
"""


def _no_work_outlived_its_hold(world: World) -> None:
    assert world.sql(OUTLIVED) == [], "work of a failed attempt ran when the next one was claimed"


def _tell(world: World, chaos: Counter[str], took_s: float) -> None:
    def count(statement: str) -> Any:
        return world.sql(statement)[0]["n"]

    sys.stdout.write(
        f"kill test, seed {SEED}: {dict(chaos)}; "
        f"jobs {count('SELECT count(*) AS n FROM jobs')}, "
        f"executions {count('SELECT count(*) AS n FROM executions')}, "
        + ", ".join(
            f"{row['event']} {row['n']}"
            for row in world.sql("SELECT event, count(*) AS n FROM job_events GROUP BY event ORDER BY event")
        )
        + f"; quiet {took_s:.1f} s after the last blow\n"
    )
