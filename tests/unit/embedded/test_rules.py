"""When an ended child is started again."""

from __future__ import annotations

from typing import Any

import pytest

from localai.embedded.rules import (
    EARLY_END_S,
    FIRST_DELAY_S,
    LAST_DELAY_S,
    STABLE_AFTER_S,
    START_RETRY_DELAY_S,
    End,
    GiveUp,
    LeaveEnded,
    SetAside,
    StartAgain,
    after_end,
    backoff_s,
)

pytestmark = pytest.mark.unit


def end(**changes: Any) -> End:
    values: dict[str, Any] = {
        "ready": True,
        "restart": True,
        "failures": 0,
        "up_s": 5.0,
        "trying_s": 100.0,
        "retry_start_s": 10.0,
        "losable": False,
        "killed": False,
    }
    return End(**{**values, **changes})


def test_the_first_new_start_comes_at_once_then_the_pause_doubles_from_half_a_second_to_thirty() -> None:
    assert [backoff_s(count) for count in range(9)] == [0.05, 0.5, 1, 2, 4, 8, 16, 30, 30]


def test_the_pause_has_a_bound_after_any_number_of_ends() -> None:
    assert backoff_s(10**9) == LAST_DELAY_S


def test_each_end_soon_after_a_start_counts() -> None:
    failures, pauses = 0, []
    for _ in range(4):
        decision = after_end(end(failures=failures))
        assert isinstance(decision, StartAgain)
        failures = decision.failures
        pauses.append(decision.in_s)
    assert pauses == [0.05, 0.5, 1, 2]


@pytest.mark.parametrize(("up_s", "pause_s"), [(STABLE_AFTER_S - 0.1, 8.0), (STABLE_AFTER_S, FIRST_DELAY_S)])
def test_a_child_that_stayed_up_for_a_minute_has_recovered(up_s: float, pause_s: float) -> None:
    assert after_end(end(failures=5, up_s=up_s)) == StartAgain(pause_s, 6 if up_s < STABLE_AFTER_S else 1)


def test_a_child_that_was_ready_is_never_given_up() -> None:
    assert isinstance(after_end(end(failures=1000, trying_s=1e6)), StartAgain)


def test_a_child_not_to_be_restarted_stays_down() -> None:
    assert after_end(end(restart=False)) == LeaveEnded()


@pytest.mark.parametrize(
    ("trying_s", "again"), [(0.1, True), (9.7, True), (10.0 - START_RETRY_DELAY_S + 0.01, False), (60.0, False)]
)
def test_a_child_that_was_never_ready_is_tried_at_a_steady_pace_within_its_time(trying_s: float, again: bool) -> None:
    decision = after_end(end(ready=False, trying_s=trying_s, failures=7))
    assert decision == (StartAgain(START_RETRY_DELAY_S, 8) if again else GiveUp())


@pytest.mark.parametrize("ready", [True, False])
def test_data_that_may_be_lost_is_set_aside_at_the_second_early_end_in_a_row(ready: bool) -> None:
    early: dict[str, Any] = {"ready": ready, "losable": True, "up_s": 0.1, "trying_s": 1.0}
    assert isinstance(after_end(end(**early, failures=0)), StartAgain)
    assert after_end(end(**early, failures=1)) == SetAside()
    assert after_end(end(**{**early, "trying_s": 60.0}, failures=1)) == SetAside(), "before the start is given up"


@pytest.mark.parametrize(
    "unlike", [{"losable": False}, {"killed": True}, {"up_s": EARLY_END_S}], ids=["kept data", "killed", "ran on"]
)
def test_data_is_not_set_aside_if_the_end_does_not_point_to_it(unlike: dict[str, Any]) -> None:
    early = {"losable": True, "up_s": 0.1, "failures": 1}
    assert isinstance(after_end(end(**{**early, **unlike})), StartAgain)
