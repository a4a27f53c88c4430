"""Keeper, sweep, ticker and what runs beside them: threads that go on whatever goes wrong."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.job import Job
from localai.jobs.owner import Owner
from localai.jobs.periodic import PgPeriodic
from localai.jobs.sweeping import Sweep
from tasks import keeper, sweep
from tasks.keeper import Keeper
from tasks.sweep import Later, SweepThread
from tasks.ticker import Pass, Ticker
from tests.unit.jobs.builders import queued

pytestmark = pytest.mark.unit
LIMIT_S = 30


class Rounds(keeper.Signals, sweep.Signals):
    """Counts rounds, and lets a test wait for one."""

    def __init__(self, wanted: int) -> None:
        self.wanted, self.count, self.enough = wanted, 0, threading.Event()

    def renewed(self) -> None:
        self.count += 1
        if self.count >= self.wanted:
            self.enough.set()

    swept = renewed


class FailingOwner:
    def __init__(self) -> None:
        self.asked = 0

    def renew(self) -> None:
        self.asked += 1
        raise StorageUnavailable if self.asked % 2 else ValueError("a fault of ours")


def test_the_keeper_goes_on_without_a_database_and_after_a_fault() -> None:
    owner, rounds = FailingOwner(), Rounds(4)
    keeping = Keeper(cast(Owner, owner), 0.001, rounds)
    keeping.start()
    assert rounds.enough.wait(LIMIT_S)
    keeping.stop()
    assert owner.asked >= 4


class CountedSweep:
    def __init__(self) -> None:
        self.runs = 0

    def run_once(self) -> None:
        self.runs += 1


def test_the_sweep_runs_every_interval_until_it_is_stopped() -> None:
    swept, rounds = CountedSweep(), Rounds(3)
    thread = SweepThread(cast(Sweep, swept), 0.001, rounds)
    thread.start()
    assert rounds.enough.wait(LIMIT_S)
    thread.stop()
    runs = swept.runs
    assert runs >= 3
    assert not any(t.name == "sweep" and t.is_alive() for t in threading.enumerate())


def test_a_job_is_stepped_once_at_a_time_and_a_failing_step_frees_it() -> None:
    begun, go_on, steps = threading.Event(), threading.Event(), []

    def step(job_id: JobId, generation: int) -> None:
        steps.append((job_id, generation))
        begun.set()
        assert go_on.wait(LIMIT_S)
        raise ValueError("a fault of ours")

    with ThreadPoolExecutor(4) as pool:
        later = Later(pool).step(step)
        later(JobId("a"), 1)
        assert begun.wait(LIMIT_S)
        later(JobId("a"), 1)
        later(JobId("b"), 1)
        go_on.set()
    assert sorted(steps) == [("a", 1), ("b", 1)]


def test_a_stop_waits_for_no_step_of_the_same_job() -> None:
    stopped: list[Job] = []
    with ThreadPoolExecutor(2) as pool:
        later = Later(pool)
        later.step(lambda job_id, generation: None)(JobId("job-1"), 7)
        later.stop(stopped.append)(queued())
    assert stopped == [queued()]


@pytest.mark.parametrize(
    ("error", "traceback"), [(Replaced(), False), (StorageUnavailable("away"), False), (RuntimeError("a fault"), True)]
)
def test_only_a_fault_leaves_a_traceback(caplog: pytest.LogCaptureFixture, error: Exception, traceback: bool) -> None:
    def fail() -> None:
        raise error

    caplog.set_level(logging.INFO, sweep.__name__)
    with ThreadPoolExecutor(1) as pool:
        Later(pool).run(fail)
    (record,) = caplog.records
    assert bool(record.exc_info) is traceback


def test_nothing_begins_once_the_process_shuts_down() -> None:
    pool = ThreadPoolExecutor(1)
    later = Later(pool)
    pool.shutdown()
    later.step(lambda *_: None)(JobId("a"), 1)
    later.run(lambda: None)


class FakeRows:
    def __init__(self, due: list[str]) -> None:
        self.declared: dict[str, float] = {}
        self.due = due

    def declare(self, intervals_s: dict[str, float]) -> None:
        self.declared = dict(intervals_s)

    def take_due(self, names: list[str]) -> list[str]:
        return [name for name in names if name in self.due]


def test_a_slow_pass_that_fails_keeps_no_other_from_running() -> None:
    ran: list[str] = []

    def failing() -> None:
        ran.append("fails")
        raise ValueError("a fault of ours")

    def named(name: str) -> Callable[[], Any]:
        return lambda: ran.append(name)

    rows = FakeRows(["fails", "works"])
    passes = {"fails": Pass(5, failing), "not-due": Pass(7, named("not-due")), "works": Pass(9, named("works"))}
    Ticker(cast(PgPeriodic, rows), passes).tick()
    assert ran == ["fails", "works"]
    assert rows.declared == {"fails": 5, "not-due": 7, "works": 9}
