"""The routing feed: the order of registration, reading and serving, and what ends a lease."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from localai.errors import StorageUnavailable
from localai.ids import FrontendId
from localai.routing.feed import Intervals, Process, RoutingFeed, Signals
from localai.routing.ports import Snapshot
from localai.routing.rules import Standing
from localai.routing.table import RoutingTable
from tests.fakes.routing import FakeClock, FakeConnections, FakeRows, Replica

pytestmark = pytest.mark.unit

ONE = Replica(replica_id="r1", process_instance="i1")
TWO = Replica(replica_id="r2", process_instance="i2", slot=1)
LIMIT_S = 30.0


class StopPoint(Signals):
    """Runs a test's own code at a named point."""

    def __init__(self) -> None:
        self.at_read: Callable[[], object] = lambda: None
        self.at_counted: Callable[[str, int], object] = lambda *_: None
        self.steps = threading.Semaphore(0)

    def read(self, snapshot: Snapshot) -> None:
        self.at_read()

    def counted(self, replica_id: str, in_flight: int) -> None:
        self.at_counted(replica_id, in_flight)

    def stepped(self) -> None:
        self.steps.release()


class Bench:
    def __init__(self, *, poll_s: float = 2) -> None:
        self.clock = FakeClock()
        self.rows = FakeRows(self.clock)
        self.connections = FakeConnections()
        self.signals = StopPoint()
        self.registered: list[FrontendId] = []
        self.table = RoutingTable(lease_ttl_s=90, serve_stale=True, forget=self.connections.forget, clock=self.clock)
        self.feed = RoutingFeed(
            self.table,
            self.rows,
            self.rows,
            self.connections,
            self.rows,
            process=Process(host="here", pid=7, url=None),
            intervals=Intervals(lease_ttl_s=90, renew_s=5, poll_s=poll_s),
            on_registered=self.registered.append,
            signals=self.signals,
            clock=self.clock,
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.feed.stop()


def test_c16_registers_before_it_reads_and_serves_after_both(bench: Bench) -> None:
    bench.rows.set(ONE)
    bench.signals.at_read = lambda: standing.append(bench.table.standing())
    standing: list[Standing] = []
    bench.feed.step()
    assert bench.rows.calls == ["register", "snapshot"]
    assert standing == [Standing.STARTING]
    assert bench.table.pick("m")


def test_c16_an_edit_that_commits_after_the_reading_waits_for_this_process(bench: Bench) -> None:
    """The edit of the counterexample commits between read and serve: it must find a lease to wait for."""
    bench.rows.set(ONE)
    holders: list[int] = []
    bench.signals.at_read = lambda: holders.append(len(bench.rows.leases))
    bench.feed.step()
    assert holders == [1]


def test_c20_a_change_between_read_and_apply_is_read_by_the_next_step(bench: Bench) -> None:
    bench.rows.set(ONE)
    bench.signals.at_read = lambda: bench.rows.set(TWO)
    bench.feed.step()
    assert [replica.replica_id for replica in bench.table.replicas("m")] == ["r1"]
    bench.signals.at_read = lambda: None
    bench.feed.step()
    assert [replica.replica_id for replica in bench.table.replicas("m")] == ["r2"]


def test_an_unchanged_version_is_not_read_again(bench: Bench) -> None:
    bench.feed.step()
    bench.rows.calls.clear()
    bench.feed.step()
    assert bench.rows.calls == ["version"]


def test_a_nudge_reads_again(bench: Bench) -> None:
    bench.feed.step()
    bench.rows.calls.clear()
    bench.feed.nudge()
    bench.feed.step()
    assert bench.rows.calls == ["snapshot"]


def test_c17_a_freeze_past_the_lease_starts_over_with_an_empty_table(bench: Bench) -> None:
    bench.rows.set(ONE)
    bench.feed.step()
    bench.clock.advance(91)
    with pytest.raises(StorageUnavailable):
        bench.table.pick("m")
    at_register: list[bool] = []
    bench.signals.at_read = lambda: at_register.append(bench.table.holds("m"))
    bench.rows.calls.clear()
    bench.feed.step()
    assert bench.rows.calls == ["end", "register", "snapshot"]
    assert at_register == [False]
    assert bench.registered == ["frontend-1", "frontend-2"]
    assert bench.table.pick("m")


def test_a_lapsed_row_is_never_renewed(bench: Bench) -> None:
    bench.rows.set(ONE)
    bench.feed.step()
    bench.rows.leases.clear()  # somebody ended it
    bench.clock.advance(6)
    bench.rows.calls.clear()
    held: list[bool] = []
    bench.signals.at_read = lambda: held.append(bench.table.holds("m"))
    bench.feed.step()
    assert bench.rows.calls == ["renew", "register", "snapshot"]
    assert held == [False], "what the old registration had read must not be routed to"


def test_loaded_models_outlive_a_database_outage_that_was_tried_against(bench: Bench) -> None:
    bench.rows.set(ONE)
    bench.feed.step()
    bench.rows.refusing = True
    for _ in range(30):
        bench.clock.advance(5)
        bench.feed.step()
    assert bench.table.standing() is Standing.STALE
    pick = bench.table.pick("m")
    assert pick
    pick.release()

    bench.rows.refusing = False
    bench.rows.calls.clear()
    bench.feed.step()
    assert bench.rows.calls == ["renew", "register", "snapshot"]
    assert bench.table.standing() is Standing.FRESH


def test_a_process_that_starts_without_a_database_serves_nothing_until_it_has_read(bench: Bench) -> None:
    bench.rows.refusing = True
    bench.feed.step()
    with pytest.raises(StorageUnavailable):
        bench.table.pick("m")
    bench.rows.refusing = False
    bench.rows.set(ONE)
    bench.feed.step()
    assert bench.table.pick("m")


def test_a_refresh_is_answered_by_a_reading_that_began_after_it(bench: Bench) -> None:
    bench.feed.start()
    assert bench.signals.steps.acquire(timeout=LIMIT_S)
    bench.rows.set(ONE)
    assert bench.feed.refresh(LIMIT_S)
    assert bench.table.holds("m")


def test_a_refresh_says_when_the_rows_could_not_be_read(bench: Bench) -> None:
    bench.feed.start()
    assert bench.signals.steps.acquire(timeout=LIMIT_S)
    bench.rows.refusing = True
    assert not bench.feed.refresh(LIMIT_S)
    bench.rows.refusing = False


def test_a_bug_in_one_step_does_not_end_the_thread(bench: Bench) -> None:
    def explode() -> None:
        raise RuntimeError("a bug")

    bench.signals.at_read = explode
    bench.feed.start()
    assert not bench.feed.refresh(LIMIT_S)
    bench.signals.at_read = lambda: None
    assert bench.feed.refresh(LIMIT_S)


def test_a_broken_connection_is_probed_and_the_replica_admitted_again(bench: Bench) -> None:
    bench.rows.set(ONE)
    bench.feed.step()
    pick = bench.table.pick("m")
    assert pick
    bench.table.drop(pick, for_good=False)
    admitted = threading.Event()
    bench.table.on_change(lambda: admitted.set() if bench.table.holds("m") else None)
    bench.connections.reachable.add(ONE.endpoint)
    bench.clock.advance(1)
    bench.feed.step()
    assert admitted.wait(LIMIT_S)


def test_stopping_ends_the_row(bench: Bench) -> None:
    bench.feed.step()
    bench.feed.stop()
    assert bench.rows.leases == {}
    with pytest.raises(StorageUnavailable):
        bench.table.pick("m")
