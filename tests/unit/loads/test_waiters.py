"""Requests that wait for a cold model: one attempt for all, the same cause for all, and no wait without a bound."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from localai.bus.memory import MemoryBus
from localai.bus.subjects import job_progress, job_result
from localai.errors import (
    BackendUnavailable,
    CallCancelled,
    LocalAIError,
    ModelHeld,
    ModelLoading,
    RowsHeld,
    StorageUnavailable,
)
from localai.loads.attempts import Status
from localai.loads.waiters import Patience, Tell, Waiter, Waiters
from tests.fakes.loads import FakeLoads
from tests.fakes.routing import FakeClock

pytestmark = pytest.mark.unit

LIMIT_S = 30.0


class FakeRoutes:
    def __init__(self) -> None:
        self.models: set[str] = set()
        self.listeners: list[Callable[[], None]] = []

    def holds(self, model: str) -> bool:
        return model in self.models

    def on_change(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def add(self, *models: str) -> None:
        self.models.update(models)
        for listener in self.listeners:
            listener()


class Bench:
    """Waiters over fakes; `wait` runs one in a thread and returns its future."""

    def __init__(self, *, wait_s: float = 0.0, poll_interval_s: float = LIMIT_S, **limits: Any) -> None:
        self.loads, self.routes, self.bus = FakeLoads(), FakeRoutes(), MemoryBus()
        self.loaded_on_refresh: set[str] = set()
        self.refreshes = 0
        self.waiters = Waiters(
            self.loads,
            self.routes,
            self.refresh,
            wait_s=wait_s,
            poll_interval_s=poll_interval_s,
            **limits,
        )
        self.waiters.listen(self.bus)
        self.pool = ThreadPoolExecutor(64)

    def refresh(self) -> bool:
        self.refreshes += 1
        self.routes.add(*self.loaded_on_refresh)
        return True

    def attach(self, model: str = "m", tell: Tell | None = None) -> tuple[Waiter, Future[None]]:
        waiter = self.waiters.attach(model, "r1", tell)
        return waiter, self.pool.submit(self._wait, waiter)

    @staticmethod
    def _wait(waiter: Waiter) -> None:
        with waiter:
            waiter.wait()

    def end(self, job_id: str) -> None:
        self.bus.publish(job_result(job_id), {})

    def progress(self, job_id: str) -> None:
        self.bus.publish(job_progress(job_id), {})

    def until_read(self) -> None:
        assert self.loads.was_read.acquire(timeout=LIMIT_S)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.pool.shutdown()


def test_lj_01_many_requests_are_one_load_and_all_are_served(bench: Bench) -> None:
    waits = [bench.attach()[1] for _ in range(50)]
    bench.until_read()
    bench.loaded_on_refresh = {"m"}
    bench.loads.succeed("job-1")
    bench.end("job-1")
    for wait in waits:
        wait.result(LIMIT_S)
    assert bench.loads.requests == ["m"]
    assert bench.waiters.waiting() == {}


def test_a_request_is_served_the_moment_the_table_has_the_replica(bench: Bench) -> None:
    _, wait = bench.attach()
    bench.until_read()
    bench.routes.add("m")
    wait.result(LIMIT_S)


def test_i6_all_waiters_of_an_attempt_read_the_same_cause(bench: Bench) -> None:
    waits = [bench.attach()[1] for _ in range(20)]
    bench.until_read()
    bench.loads.fail("job-1", "worker out of disk", retry_after_s=15)
    bench.end("job-1")
    errors = [wait.exception(LIMIT_S) for wait in waits]
    assert {type(error) for error in errors} == {ModelHeld}
    assert {str(error) for error in errors} == {"worker out of disk"}
    assert len({id(error) for error in errors}) == len(errors), "one error cannot be raised by many"
    first = errors[0]
    assert isinstance(first, ModelHeld)
    assert (first.retry_after_s, first.loading["state"]) == (15, "failed")


def test_a_held_model_is_refused_with_the_real_cause_at_once(bench: Bench) -> None:
    bench.loads.request("m", "r1")
    bench.loads.fail("job-1", "digest mismatch", retry_after_s=140)
    _, wait = bench.attach()
    error = wait.exception(LIMIT_S)
    assert isinstance(error, ModelHeld)
    assert (error.message, error.retry_after_s) == ("digest mismatch", 140)


def test_lj_12_the_budget_ends_in_model_loading_with_the_newest_progress() -> None:
    bench = Bench(wait_s=0.05)
    _, wait = bench.attach()
    error = wait.exception(LIMIT_S)
    assert isinstance(error, ModelLoading)
    assert error.loading["model"] == "m"
    assert error.retry_after_s == 7
    bench.pool.shutdown()


def test_lj_12_a_budget_that_ends_before_the_load_has_a_row_waits_for_the_row() -> None:
    late = threading.Event()

    class Clock(FakeClock):
        def __call__(self) -> float:
            if self.now > 1000.0:
                late.set()
            return self.now

    clock = Clock()
    bench = Bench(wait_s=60, clock=clock)
    bench.loads.on_request = lambda: late.wait(LIMIT_S)
    _, wait = bench.attach()
    clock.advance(61)
    for attempt in bench.waiters._means.attempts._all():
        attempt.tell()
    error = wait.exception(LIMIT_S)
    assert isinstance(error, ModelLoading), error
    assert error.loading["job_id"] == "job-1"
    bench.pool.shutdown()


def test_a_request_for_a_load_that_rows_refuse_says_so(bench: Bench) -> None:
    def refuse() -> None:
        raise RowsHeld(reason="55P03")

    bench.loads.on_request = refuse
    waits = [bench.attach()[1] for _ in range(5)]
    assert {type(wait.exception(LIMIT_S)) for wait in waits} == {RowsHeld}


def test_a_lost_event_only_delays_until_the_poll() -> None:
    bench = Bench(poll_interval_s=0.02)
    _, wait = bench.attach()
    bench.until_read()
    bench.loaded_on_refresh = {"m"}
    bench.loads.succeed("job-1")
    wait.result(LIMIT_S)
    bench.pool.shutdown()


def test_an_event_that_passes_before_the_job_is_known_here_is_not_missed(bench: Bench) -> None:
    bench.loads.on_request = lambda: bench.loads.attempts and bench.end("job-1")
    bench.loaded_on_refresh = {"m"}
    original = bench.loads.request

    def request_and_finish(model: str, revision: str) -> object:
        ticket = original(model, revision)
        bench.loads.succeed(ticket.job_id)
        bench.end(ticket.job_id)
        return ticket

    bench.loads.request = request_and_finish  # type: ignore[method-assign, assignment]
    _, wait = bench.attach()
    wait.result(LIMIT_S)


def test_lj_02_a_client_that_leaves_ends_its_own_wait_only(bench: Bench) -> None:
    leaver, left = bench.attach()
    _, stays = bench.attach()
    bench.until_read()
    leaver.leave()
    assert isinstance(left.exception(LIMIT_S), CallCancelled)
    bench.routes.add("m")
    stays.result(LIMIT_S)
    assert bench.loads.attempts["job-1"].job_state == "running", "the load goes on"


def test_requests_over_the_cap_are_answered_at_once() -> None:
    bench = Bench(per_model=2)
    waits = [bench.attach()[1] for _ in range(2)]
    bench.until_read()
    with pytest.raises(ModelLoading):
        bench.waiters.attach("m", "r1")
    assert bench.waiters.waiting() == {"m": 2}
    bench.routes.add("m")
    for wait in waits:
        wait.result(LIMIT_S)
    bench.pool.shutdown()


def test_without_a_database_a_cold_request_fails_instead_of_loading_without_a_job(bench: Bench) -> None:
    bench.loads.refusing = True
    waits = [bench.attach()[1] for _ in range(5)]
    assert {type(wait.exception(LIMIT_S)) for wait in waits} == {StorageUnavailable}


def test_a_database_that_goes_away_during_the_load_ends_no_wait() -> None:
    bench = Bench(poll_interval_s=0.02)
    _, wait = bench.attach()
    bench.until_read()
    bench.loads.refusing = True
    assert not wait.done()
    bench.loads.refusing = False
    bench.loaded_on_refresh = {"m"}
    bench.loads.succeed("job-1")
    wait.result(LIMIT_S)
    bench.pool.shutdown()


def test_a_resync_of_the_bus_reads_the_rows_again(bench: Bench) -> None:
    _, wait = bench.attach()
    bench.until_read()
    bench.bus.disconnect()
    bench.loaded_on_refresh = {"m"}
    bench.loads.succeed("job-1")
    bench.end("job-1")
    bench.bus.reconnect()
    wait.result(LIMIT_S)


def test_a_model_that_serves_already_only_needs_the_table_read(bench: Bench) -> None:
    bench.loads.serves = {"m"}
    bench.loaded_on_refresh = {"m"}
    _, wait = bench.attach()
    wait.result(LIMIT_S)
    assert bench.loads.reads == 0


def test_rt_06_a_replica_that_cannot_be_reached_is_loaded_anew_once_its_row_says_so() -> None:
    bench = Bench(poll_interval_s=0.02)
    bench.loads.serves = {"m"}
    _, wait = bench.attach()
    assert bench.loads.requested.wait(LIMIT_S)
    bench.loads.serves = set()  # the agent said that the process ended
    bench.until_read()
    bench.loaded_on_refresh = {"m"}
    bench.loads.succeed("job-1")
    wait.result(LIMIT_S)
    bench.pool.shutdown()


def test_a_replica_that_stays_out_of_reach_is_said_to_be_so() -> None:
    bench = Bench(wait_s=0.05)
    bench.loads.serves = {"m"}
    _, wait = bench.attach()
    assert isinstance(wait.exception(LIMIT_S), BackendUnavailable)
    bench.pool.shutdown()


def test_a_replica_that_is_gone_again_is_requested_again(bench: Bench) -> None:
    _, wait = bench.attach()
    bench.until_read()
    bench.loads.succeed("job-1")  # and the table never shows it
    bench.end("job-1")
    second = threading.Event()
    bench.loads.on_request = second.set
    assert second.wait(LIMIT_S) or bench.loads.requests == ["m", "m"]
    bench.routes.add("m")
    wait.result(LIMIT_S)


def test_a_bug_while_following_ends_the_wait_with_an_error(bench: Bench) -> None:
    def explode() -> None:
        raise RuntimeError("a bug")

    bench.loads.on_request = explode
    _, wait = bench.attach()
    error = wait.exception(LIMIT_S)
    assert type(error) is LocalAIError


def test_models_wait_apart_from_each_other(bench: Bench) -> None:
    _, one = bench.attach("one")
    _, two = bench.attach("two")
    bench.until_read()
    bench.until_read()
    bench.routes.add("one")
    one.result(LIMIT_S)
    assert not two.done()
    bench.routes.add("two")
    two.result(LIMIT_S)


def test_a_replica_that_comes_with_the_last_look_is_served_and_not_refused() -> None:
    clock = FakeClock()
    bench = Bench(wait_s=60, clock=clock)
    _, wait = bench.attach()
    bench.until_read()
    bench.loads.succeed("job-1")  # its event is lost, and the next poll is far
    bench.loaded_on_refresh = {"m"}
    clock.advance(61)
    (attempt,) = bench.waiters._attempts._attempts.values()
    attempt.tell()
    wait.result(LIMIT_S)
    bench.pool.shutdown()


def test_replicas_that_go_as_fast_as_they_come_end_the_wait(bench: Bench) -> None:
    original = bench.loads.read

    def read(job_id: str) -> Any:
        bench.loads.succeed(job_id)  # and the table never shows it
        return original(job_id)

    bench.loads.read = read  # type: ignore[method-assign]
    _, wait = bench.attach()
    error = wait.exception(LIMIT_S)
    assert isinstance(error, BackendUnavailable) and "as fast as they come" in error.message
    assert bench.loads.requests[:3] == ["m"] * 3


def test_who_is_told_reads_each_step_at_once_and_each_only_once(bench: Bench) -> None:
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    _, wait = bench.attach(tell=told.put)
    assert told.get(timeout=LIMIT_S).to_json()["state"] == "loading"
    for step, percent in (("staging", 10.0), ("staging", 60.0), ("loading", 100.0)):
        bench.loads.move("job-1", step, percent)
        bench.progress("job-1")
        seen = told.get(timeout=LIMIT_S).to_json()
        assert (seen["state"], seen["progress"]) == (step, percent)
    bench.progress("job-1")
    bench.routes.add("m")
    wait.result(LIMIT_S)
    assert told.empty()


def test_what_no_event_speaks_of_is_told_all_the_same(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localai.loads.attempts.TOLD_POLL_S", 0.02)
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    _, wait = bench.attach(tell=told.put)
    told.get(timeout=LIMIT_S)
    bench.loads.move("job-1", "pending", 30.0)  # as while another job fetches the files
    assert told.get(timeout=LIMIT_S).to_json()["progress"] == 30.0
    bench.routes.add("m")
    wait.result(LIMIT_S)


def test_the_first_who_is_told_gets_what_is_true_now(bench: Bench) -> None:
    _, silent = bench.attach()
    bench.until_read()
    bench.loads.move("job-1", "staging", 70.0)
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    _, wait = bench.attach(tell=told.put)
    while told.get(timeout=LIMIT_S / 3).to_json()["progress"] != 70.0:
        pass
    bench.routes.add("m")
    for one in (silent, wait):
        one.result(LIMIT_S)


def test_progress_costs_no_reading_where_nobody_is_told(bench: Bench) -> None:
    _, wait = bench.attach()
    bench.until_read()
    for _ in range(20):
        bench.progress("job-1")
    bench.progress("job-of-somebody-else")
    bench.routes.add("m")
    wait.result(LIMIT_S)
    assert bench.loads.reads == 1


def test_no_reading_is_made_any_more_once_the_last_who_was_told_has_left(bench: Bench) -> None:
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    leaver, left = bench.attach(tell=told.put)
    _, stays = bench.attach()
    bench.until_read()
    leaver.leave()
    assert isinstance(left.exception(LIMIT_S), CallCancelled)
    bench.progress("job-1")
    assert not bench.loads.was_read.acquire(timeout=0.2)
    bench.routes.add("m")
    stays.result(LIMIT_S)


def test_patience_is_for_the_whole_wait_or_for_silence() -> None:
    patience = Patience(wait_s=60, silence_s=90)
    assert patience.until(100, None, told=False) == patience.until(100, 150, told=False) == 160
    assert Patience(wait_s=0).until(100, None, told=False) is None
    assert patience.until(100, None, told=True) == 190
    assert patience.until(100, 150, told=True) == 240


def test_lj_03_who_is_told_waits_as_long_as_something_is_heard_of_the_load() -> None:
    clock = FakeClock()
    bench = Bench(wait_s=60, silence_s=90, clock=clock)
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    _, wait = bench.attach(tell=told.put)
    told.get(timeout=LIMIT_S)
    for percent in range(10):
        clock.advance(80)
        bench.loads.move("job-1", "staging", float(percent))
        bench.progress("job-1")
        assert told.get(timeout=LIMIT_S).to_json()["progress"] == percent
    bench.loads.refusing = True
    clock.advance(91)
    bench.progress("job-1")
    error = wait.exception(LIMIT_S)
    assert isinstance(error, StorageUnavailable)
    bench.pool.shutdown()


def test_a_status_that_nobody_could_read_again_is_not_shown_as_news() -> None:
    clock = FakeClock()
    bench = Bench(wait_s=60, poll_interval_s=5, clock=clock)
    waits = [bench.attach()[1] for _ in range(20)]
    bench.until_read()
    bench.loads.refusing = True
    clock.advance(61)
    bench.end("job-1")
    assert {type(wait.exception(LIMIT_S)) for wait in waits} == {StorageUnavailable}
    bench.pool.shutdown()


def test_i6_waiters_that_are_late_at_once_look_once_and_read_the_same_cause() -> None:
    clock = FakeClock()
    bench = Bench(wait_s=60, poll_interval_s=LIMIT_S, clock=clock)
    waits = [bench.attach()[1] for _ in range(20)]
    bench.until_read()
    bench.loads.fail("job-1", "worker silent")  # and no event says so
    reads = bench.loads.reads
    clock.advance(61)
    for attempt in bench.waiters._means.attempts._all():
        attempt.tell()
    errors = [wait.exception(LIMIT_S) for wait in waits]
    assert {str(error) for error in errors} == {"worker silent"}
    assert bench.loads.reads == reads + 1
    bench.pool.shutdown()


def test_a_silence_is_more_than_one_look_that_fails() -> None:
    bench = Bench(poll_interval_s=60, silence_s=90)
    assert bench.waiters._means.patience.silence_s == 180


def test_i6_who_is_told_reads_the_same_cause_as_who_is_not(bench: Bench) -> None:
    told: queue.SimpleQueue[Status] = queue.SimpleQueue()
    waits = [bench.attach(tell=told.put if number % 2 else None)[1] for number in range(10)]
    told.get(timeout=LIMIT_S)
    bench.loads.fail("job-1", "worker out of disk")
    bench.end("job-1")
    assert {str(wait.exception(LIMIT_S)) for wait in waits} == {"worker out of disk"}
    assert bench.loads.requests == ["m"]


def test_a_late_waiter_of_an_attempt_that_failed_reads_its_cause_and_begins_no_other(bench: Bench) -> None:
    _, first = bench.attach()
    bench.until_read()
    bench.loads.fail("job-1", "digest mismatch")
    bench.end("job-1")
    assert isinstance(first.exception(LIMIT_S), ModelHeld)
    _, late = bench.attach()
    error = late.exception(LIMIT_S)
    assert isinstance(error, ModelHeld) and error.message == "digest mismatch"
    assert error.loading["job_id"] == "job-1"
