"""The routing table: what a snapshot, a broken call and a lease do to picks."""

from __future__ import annotations

import pytest

from localai.errors import StorageUnavailable
from localai.routing.rules import Lease
from localai.routing.table import RoutingTable
from tests.fakes.routing import FakeClock, FakeConnections, FakeSnapshot, Replica

pytestmark = pytest.mark.unit

ONE = Replica(replica_id="r1", process_instance="i1", address="127.0.0.1:1")
TWO = Replica(replica_id="r2", process_instance="i2", address="127.0.0.1:2", slot=1)
TTL_S = 90.0


class Bench:
    """A table that may route, with its clock and connections."""

    def __init__(self, *, serve_stale: bool = True) -> None:
        self.clock, self.connections = FakeClock(), FakeConnections()
        self.table = RoutingTable(
            lease_ttl_s=TTL_S, serve_stale=serve_stale, forget=self.connections.forget, clock=self.clock
        )
        self.table.hold(Lease.granted(self.clock(), TTL_S))

    def apply(self, version: int, *replicas: Replica) -> None:
        self.table.apply(FakeSnapshot(version, replicas), asked_at=self.clock())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_picks_spread_over_idle_replicas(bench: Bench) -> None:
    bench.apply(1, ONE, TWO)
    taken = []
    for _ in range(20):
        pick = bench.table.pick("m")
        assert pick is not None
        with pick:
            taken.append(pick.replica.replica_id)
    assert taken.count("r1") == taken.count("r2") == 10


def test_c19_a_pick_counts_until_it_is_released_once(bench: Bench) -> None:
    bench.apply(1, ONE)
    first, second = bench.table.pick("m"), bench.table.pick("m")
    assert first and second
    assert bench.table.in_flight(ONE.endpoint) == 2
    first.release()
    first.release()
    assert bench.table.in_flight(ONE.endpoint) == 1
    second.release()
    assert bench.table.in_flight(ONE.endpoint) == 0


def test_c20_an_older_snapshot_never_overwrites_a_newer_one(bench: Bench) -> None:
    bench.apply(7, TWO)
    bench.apply(6, ONE)
    assert [replica.replica_id for replica in bench.table.replicas("m")] == ["r2"]
    assert bench.table.version == 7


def test_counts_survive_a_re_read(bench: Bench) -> None:
    bench.apply(1, ONE)
    pick = bench.table.pick("m")
    assert pick
    bench.apply(2, ONE, TWO)
    assert bench.table.in_flight(ONE.endpoint) == 1
    assert (second := bench.table.pick("m")) and second.replica is TWO


def test_the_connection_of_a_replica_that_left_is_closed_after_its_last_request(bench: Bench) -> None:
    bench.apply(1, ONE)
    pick = bench.table.pick("m")
    assert pick
    bench.apply(2)
    assert bench.table.pick("m") is None
    assert bench.connections.forgotten == []
    pick.release()
    assert bench.connections.forgotten == [ONE.endpoint]


def test_a_replica_that_comes_back_while_its_requests_run_keeps_its_connection(bench: Bench) -> None:
    bench.apply(1, ONE)
    pick = bench.table.pick("m")
    assert pick
    bench.apply(2)
    bench.apply(3, ONE)
    pick.release()
    assert bench.connections.forgotten == []
    assert bench.table.in_flight(ONE.endpoint) == 0
    assert bench.table.holds("m")


def test_a_broken_connection_comes_back_only_through_rows_read_since(bench: Bench) -> None:
    bench.apply(1, ONE)
    pick = bench.table.pick("m")
    assert pick
    asked_before = bench.clock()
    bench.clock.advance(1)
    bench.table.drop(pick, for_good=False)
    assert bench.connections.forgotten == [ONE.endpoint]
    assert bench.table.apply(FakeSnapshot(1, (ONE,)), asked_at=asked_before) == []
    assert not bench.table.holds("m")

    bench.clock.advance(1)
    assert bench.table.apply(FakeSnapshot(1, (ONE,)), asked_at=bench.clock()) == [ONE.endpoint]
    assert not bench.table.holds("m"), "rows alone do not prove the connection"
    assert bench.table.admit(ONE.endpoint)
    assert bench.table.holds("m")


def test_rt_06_an_instance_that_holds_no_model_stays_out_until_another_instance(bench: Bench) -> None:
    bench.apply(1, ONE)
    with bench.table.pick("m") as pick:  # type: ignore[union-attr]
        bench.table.drop(pick, for_good=True)
        assert bench.connections.forgotten == [], "other requests may still run on it"
    assert bench.connections.forgotten == [ONE.endpoint]
    bench.clock.advance(1)
    assert bench.table.apply(FakeSnapshot(2, (ONE,)), asked_at=bench.clock()) == []
    assert not bench.table.admit(ONE.endpoint)
    again = Replica(replica_id="r1", process_instance="i9", address="127.0.0.1:1")
    bench.apply(3, again)
    assert bench.table.holds("m")
    assert not bench.table.lost()


def test_a_late_failure_on_the_old_connection_does_not_drop_the_new_one(bench: Bench) -> None:
    bench.apply(1, ONE)
    early, late = bench.table.pick("m"), bench.table.pick("m")
    assert early and late
    bench.table.drop(early, for_good=False)
    bench.clock.advance(1)
    bench.apply(1, ONE)
    bench.table.admit(ONE.endpoint)
    bench.table.drop(late, for_good=False)
    assert bench.table.holds("m")


def test_c17_no_pick_after_a_freeze_longer_than_the_lease(bench: Bench) -> None:
    bench.apply(1, ONE)
    bench.clock.advance(TTL_S + 1)
    with pytest.raises(StorageUnavailable):
        bench.table.pick("m")


def test_no_pick_before_the_rows_are_read() -> None:
    table = RoutingTable(lease_ttl_s=TTL_S, serve_stale=True, forget=lambda _: None, clock=FakeClock())
    with pytest.raises(StorageUnavailable):
        table.pick("m")


@pytest.mark.parametrize("serve_stale", [True, False])
def test_a_refusing_database_stops_picks_only_where_stale_routing_is_refused(serve_stale: bool) -> None:
    bench = Bench(serve_stale=serve_stale)
    bench.apply(1, ONE)
    lease = Lease.granted(bench.clock(), TTL_S)
    bench.clock.advance(TTL_S + 1)
    bench.table.hold(lease.refused(bench.clock() - 1))
    if serve_stale:
        assert bench.table.pick("m")
    else:
        with pytest.raises(StorageUnavailable):
            bench.table.pick("m")


def test_c22_an_instance_may_be_dialled_only_while_rows_within_a_lease_name_it(bench: Bench) -> None:
    bench.apply(1, ONE)
    assert bench.table.vouches(ONE.endpoint)
    assert not bench.table.vouches(TWO.endpoint)
    bench.clock.advance(TTL_S + 1)
    assert not bench.table.vouches(ONE.endpoint)
    assert bench.table.confirm(1, asked_at=bench.clock())
    assert bench.table.vouches(ONE.endpoint)


def test_waiters_hear_of_a_replica_after_it_can_be_picked(bench: Bench) -> None:
    seen: list[bool] = []
    bench.table.on_change(lambda: seen.append(bench.table.holds("m")))
    bench.apply(1, ONE)
    assert seen == [True]
