"""What a pass learns from the distance to the last note, and when a reading of the clock may be compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from localai.observation.observer import Observation, Observer
from localai.observation.rules import Finding, Note, look

pytestmark = pytest.mark.unit

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GAP_S = 15.0


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("noted_s", "heard", "finding"),
    [
        (1, True, Finding(watched_s=600.0)),
        (5, True, Finding(watched_s=600.0, note=True)),
        (15, True, Finding(watched_s=600.0, note=True)),
        (16, True, Finding(watched_s=0.0, note=True, unseen_s=16.0)),
        (3600, True, Finding(watched_s=0.0, note=True, unseen_s=3600.0)),
        (-0.5, True, Finding(watched_s=600.0)),
        (-3600, True, Finding(watched_s=0.0, note=True, stepped_back=True)),
        (1, False, Finding(watched_s=0.0)),
        (5, False, Finding(watched_s=0.0, note=True, unseen_s=5.0)),
    ],
)
def test_a_gap_a_step_of_the_clock_and_time_without_web_processes_begin_anew(
    noted_s: float, heard: bool, finding: Finding
) -> None:
    row = Note(noted_at=ago(noted_s), resumed_at=ago(600), heard=heard, now=NOW)
    assert look(row, GAP_S) == finding


def test_an_observation_that_resumed_ahead_of_the_clock_has_no_age() -> None:
    row = Note(noted_at=ago(1), resumed_at=ago(-60), heard=True, now=NOW)
    assert look(row, GAP_S).watched_s == 0.0


class Rows:
    def __init__(self) -> None:
        self.now = NOW

    def observe(self) -> Observation:
        return Observation(100.0, self.now)


def test_stored_times_are_judged_only_shortly_after_a_pass_and_by_a_steady_clock() -> None:
    clock = [1000.0]
    observer = Observer(Rows(), GAP_S, lambda: clock[0])
    assert not observer.trusts(NOW), "no pass yet"
    assert observer.look() == 100.0
    clock[0] += 10
    assert observer.trusts(NOW + timedelta(seconds=10))
    assert not observer.trusts(NOW + timedelta(hours=1)), "the clock of the database stepped"
    assert not observer.trusts(NOW - timedelta(hours=1))
    clock[0] += 10
    assert not observer.trusts(NOW + timedelta(seconds=20)), "no pass for longer than a gap"
