"""When a silent process is busy, and when it stands still."""

from __future__ import annotations

import pytest

from worker_agent.processes.stall_rules import Activity, Heard, Silence, silence_after, stands_still

pytestmark = pytest.mark.unit

WINDOW_S = 60.0
GAP_S = 40.0
STILL, RUNS = Activity(used=500, wants_to_run=False), Activity(used=500, wants_to_run=True)
NOTHING = Heard.NOTHING

Look = tuple[float, Heard, Activity | None]


def after(*looks: Look) -> Silence | None:
    silence = None
    for at, heard, activity in looks:
        silence = silence_after(silence, heard, activity, now=at, longest_gap_s=GAP_S)
    return silence


def judged(*looks: Look) -> bool:
    silence = after(*looks)
    return silence is not None and stands_still(silence, window_s=WINDOW_S)


def quiet(*times: float) -> list[Look]:
    return [(at, NOTHING, STILL) for at in times]


def test_a_process_that_answers_nothing_and_uses_no_processor_for_the_window_stands_still() -> None:
    assert judged(*quiet(0, 15, 30, 45, 60))
    assert not judged(*quiet(0, 15, 30, 45, 59))


def test_a_pause_of_thirty_seconds_inside_one_call_is_no_standstill() -> None:
    assert not judged(*quiet(0, 15, 30), (45, Heard.ANSWERED, None))


@pytest.mark.parametrize(
    ("heard", "activity"),
    [
        (Heard.ANSWERED, None),
        (Heard.GREETED, STILL),  # a busy server, also one whose only thread waits without using a processor
        (Heard.REFUSED, STILL),
        (NOTHING, RUNS),
        (NOTHING, None),  # what cannot be read is not zero
    ],
)
def test_a_sign_of_life_ends_the_series(heard: Heard, activity: Activity | None) -> None:
    assert after(*quiet(0, 15, 30, 45), (60, heard, activity)) is None
    assert not judged(*quiet(0, 15, 30, 45), (50, heard, activity), *quiet(60, 75))


def test_processor_time_between_two_looks_begins_the_series_anew() -> None:
    used = Activity(used=501, wants_to_run=False)
    silence = after(*quiet(0, 15, 30, 45), (60, NOTHING, used))
    assert silence == Silence(since=60, last_at=60, looks=1, used=501)


def test_processor_time_that_went_back_is_a_sign_too() -> None:
    """A thread that ended takes its time along."""
    silence = after(*quiet(0, 15), (30, NOTHING, Activity(used=400, wants_to_run=False)))
    assert silence is not None
    assert silence.looks == 1


def test_an_agent_that_was_paused_itself_does_not_judge_by_its_pause() -> None:
    assert not judged(*quiet(0, 15, 300))
    assert not judged(*quiet(0, 15, 300, 315, 330, 345))
    assert judged(*quiet(0, 15, 300, 315, 330, 345, 360))


def test_two_looks_are_not_enough_however_far_apart() -> None:
    silence = silence_after(None, NOTHING, STILL, now=0, longest_gap_s=1000)
    silence = silence_after(silence, NOTHING, STILL, now=100, longest_gap_s=1000)
    assert silence is not None
    assert not stands_still(silence, window_s=WINDOW_S)
