"""What a web process says about a replica that is being taken away, and when it says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localai.errors import ModelUnloaded
from localai.inference.ports import Endpoint
from tests.fakes.routing import Replica
from tests.unit.routing.test_feed import LIMIT_S, Bench

pytestmark = pytest.mark.unit

ONE = Replica(replica_id="r1", process_instance="i1")
TWO = Replica(replica_id="r2", process_instance="i2", slot=1)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.rows.set(ONE, TWO)
    bench.feed.step()
    yield bench
    bench.feed.stop()


def said(bench: Bench) -> list[tuple[str, int]]:
    return [(replica, count) for replica, _, count in bench.rows.said]


def pick(bench: Bench, endpoint: Endpoint) -> object:
    picked = bench.table.pick("m", exclude=[other.endpoint for other in (ONE, TWO) if other.endpoint != endpoint])
    assert picked is not None
    return picked


def test_a_replica_without_requests_is_acknowledged_with_zero_once(bench: Bench) -> None:
    bench.rows.take_away(ONE)
    bench.feed.step()
    bench.feed.nudge()
    bench.feed.step()
    assert said(bench) == [("r1", 0)]


def test_c18_nothing_is_acknowledged_while_the_table_holds_the_replica(bench: Bench) -> None:
    """The mark commits between the reading and the listing: the process could still pick it."""
    bench.signals.at_read = lambda: bench.rows.take_away(ONE) if not bench.rows.leaving else None
    bench.feed.nudge()
    bench.feed.step()
    assert bench.table.holds("m", exclude=[TWO.endpoint])
    assert said(bench) == []
    bench.feed.step()
    assert not bench.table.holds("m", exclude=[TWO.endpoint])
    assert said(bench) == [("r1", 0)]


def test_c18_a_replica_out_for_a_broken_connection_is_not_acknowledged_while_its_row_may_bring_it_back(
    bench: Bench,
) -> None:
    with pick(bench, ONE.endpoint) as broken:  # type: ignore[attr-defined]
        bench.table.drop(broken, for_good=False)
    assert bench.table.remaining("i1") is None
    bench.rows.take_away(ONE)
    bench.feed.step()
    assert said(bench) == [("r1", 0)]
    assert not bench.table.admit(ONE.endpoint)


def test_c19_a_request_in_flight_is_counted_and_its_end_is_said(bench: Bench) -> None:
    first, second = pick(bench, ONE.endpoint), pick(bench, ONE.endpoint)
    bench.rows.take_away(ONE)
    bench.feed.step()
    assert said(bench) == [("r1", 2)]
    first.release()  # type: ignore[attr-defined]
    bench.feed.step()
    second.release()  # type: ignore[attr-defined]
    bench.feed.step()
    bench.feed.step()
    assert said(bench) == [("r1", 2), ("r1", 1), ("r1", 0)]


def test_c19_the_last_end_wakes_the_feed() -> None:
    bench = Bench(poll_s=3600)
    bench.rows.set(ONE)
    bench.feed.step()
    request = pick(bench, ONE.endpoint)
    bench.rows.take_away(ONE)
    bench.feed.step()
    assert said(bench) == [("r1", 1)]
    bench.feed.start()
    for _ in range(3):  # the two steps above, and the first of the thread
        assert bench.signals.steps.acquire(timeout=LIMIT_S)
    request.release()  # type: ignore[attr-defined]
    assert bench.signals.steps.acquire(timeout=LIMIT_S)
    assert said(bench)[-1] == ("r1", 0)
    bench.feed.stop()


def test_what_could_not_be_said_is_said_by_the_next_step(bench: Bench) -> None:
    bench.rows.take_away(ONE)

    def refuse(*_: object) -> None:
        bench.rows.refusing = True

    bench.signals.at_counted = refuse
    bench.feed.step()
    assert said(bench) == []
    bench.rows.refusing, bench.signals.at_counted = False, lambda *_: None
    bench.feed.step()
    assert said(bench) == [("r1", 0)]


def test_requests_of_an_earlier_registration_are_counted_by_the_next(bench: Bench) -> None:
    request = pick(bench, ONE.endpoint)
    bench.clock.advance(200)
    bench.rows.take_away(ONE)
    bench.feed.step()
    assert len(bench.registered) == 2
    assert bench.rows.said == [("r1", bench.registered[1], 1)]
    request.release()  # type: ignore[attr-defined]
    bench.feed.step()
    assert said(bench)[-1] == ("r1", 0)


def test_a_process_that_never_had_the_replica_says_so_too() -> None:
    bench = Bench()
    bench.rows.set(ONE)
    bench.rows.take_away(ONE)
    bench.feed.step()
    assert said(bench) == [("r1", 0)]
    bench.feed.stop()


def test_requests_are_ended_once_when_the_rows_say_that_they_are_to_be_cut(bench: Bench) -> None:
    request, why = pick(bench, ONE.endpoint), []
    request.cancelled_by(why.append)  # type: ignore[attr-defined]
    bench.rows.take_away(ONE)
    bench.feed.step()
    assert why == []
    bench.rows.cut.add("r1")
    bench.feed.step()
    bench.feed.step()
    assert [type(error) for error in why] == [ModelUnloaded]
    request.release()  # type: ignore[attr-defined]
    bench.feed.step()
    assert said(bench) == [("r1", 1), ("r1", 0)]


def test_a_request_whose_call_begins_after_the_cut_is_ended_at_once(bench: Bench) -> None:
    request, why = pick(bench, ONE.endpoint), []
    bench.rows.take_away(ONE)
    bench.rows.cut.add("r1")
    bench.feed.step()
    request.cancelled_by(why.append)  # type: ignore[attr-defined]
    assert [type(error) for error in why] == [ModelUnloaded]


def test_nothing_is_cut_while_the_table_still_routes_there(bench: Bench) -> None:
    """The mark and its force commit between the reading and the listing."""
    request, why = pick(bench, ONE.endpoint), []
    request.cancelled_by(why.append)  # type: ignore[attr-defined]
    bench.rows.cut.add("r1")
    bench.signals.at_read = lambda: bench.rows.take_away(ONE) if not bench.rows.leaving else None
    bench.feed.nudge()
    bench.feed.step()
    assert why == []
    bench.feed.step()
    assert [type(error) for error in why] == [ModelUnloaded]


def test_requests_of_other_replicas_are_not_cut(bench: Bench) -> None:
    mine, other = [], []
    pick(bench, ONE.endpoint).cancelled_by(mine.append)  # type: ignore[attr-defined]
    pick(bench, TWO.endpoint).cancelled_by(other.append)  # type: ignore[attr-defined]
    bench.rows.take_away(ONE)
    bench.rows.take_away(TWO)
    bench.rows.cut.add("r2")
    bench.feed.step()
    assert (len(mine), len(other)) == (0, 1)
