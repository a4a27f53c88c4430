"""The pick rule and the standing of a web process, by values only."""

from __future__ import annotations

import pytest

from localai.routing.rules import Lease, Standing, Use, choose

pytestmark = pytest.mark.unit

TTL_S = 90.0


@pytest.mark.parametrize(
    ("uses", "chosen"),
    [
        ([Use(0, 0)], 0),
        ([Use(1, 0), Use(0, 9)], 1),
        ([Use(2, 1), Use(2, 0), Use(3, 0)], 1),
        ([Use(0, 5), Use(0, 4), Use(0, 6)], 1),
    ],
)
def test_rt_04_fewest_in_flight_then_least_recently_used(uses: list[Use], chosen: int) -> None:
    assert choose(uses) == chosen


def test_a_lease_ends_before_its_row_by_what_clocks_drift() -> None:
    lease = Lease.granted(sent_at=100.0, ttl_s=TTL_S)
    assert lease.standing(100.0 + TTL_S * 0.94, TTL_S) is Standing.FRESH
    assert lease.standing(100.0 + TTL_S * 0.96, TTL_S) is Standing.LAPSED


def test_c17_a_process_that_did_not_run_is_lapsed_not_stale() -> None:
    lease = Lease.granted(sent_at=0.0, ttl_s=TTL_S)
    assert lease.standing(TTL_S + 1, TTL_S) is Standing.LAPSED
    frozen_after_a_refusal = lease.refused(at=10.0)
    assert frozen_after_a_refusal.standing(10.0 + TTL_S + 1, TTL_S) is Standing.LAPSED


def test_a_process_that_tried_and_was_refused_is_stale() -> None:
    lease = Lease.granted(sent_at=0.0, ttl_s=TTL_S).refused(at=88.0)
    assert lease.standing(TTL_S + 1, TTL_S) is Standing.STALE
    assert lease.standing(60.0, TTL_S) is Standing.FRESH
