"""When a load is said to end: from its own bytes, from loads like it, and not at all where neither means anything."""

from __future__ import annotations

from typing import Any

import pytest

from localai.jobs.job import Job, State
from localai.jobs.operation_rules import OpState, Phase
from localai.loads.eta_rules import Eta, LoadDurations, eta
from tests.unit.jobs.builders import at, claimed, queued, running
from tests.unit.loads.eta_calibration import ALL, SEED, Answer, coverage, measure, outside_band

pytestmark = pytest.mark.unit


def took(loading: float, *, staging: float = 10.0, installing: float = 1.0, **changes: Any) -> LoadDurations:
    values = {"pending_s": 0.2, "installing_s": installing, "staging_s": staging, "loading_s": loading}
    return LoadDurations(**{**values, "backend": "llama-cpp", "size_bytes": 1000, **changes})


def load(phase: Phase = Phase.LOADING, since: float = 20.0, *, size: int = 1000, **changes: Any) -> Job:
    values: dict[str, Any] = {"phase": phase, "phase_started_at": at(-since)}
    order = {"backend": "llama-cpp", "files": [{"size": size}] if size else []}
    return claimed(**{**values, "args": {"order": order}, **changes})


def staging(done: int = 400, since: float = 102.0, **changes: Any) -> Job:
    return load(Phase.STAGING, since, **{"bytes_done": done, "bytes_total": 1000, **changes})


ALIKE = [took(100.0), took(101.0), took(102.0)]


def test_three_loads_that_took_the_same_say_when_the_fourth_ends() -> None:
    said = eta(load(since=20), ALIKE)
    assert said is not None and said.low is not None and said.high is not None
    assert 65 <= said.low < 80 <= said.seconds <= 82 < said.high <= 98


@pytest.mark.parametrize(
    ("job", "history"),
    [
        (load(), ALIKE[:2]),
        (load(), ()),
        (load(size=2000), ALIKE),
        (load(args={"order": {"backend": "other", "files": [{"size": 1000}]}}), ALIKE),
        (load(since=200), ALIKE),
        (load(op_state=OpState.ENDED), ALIKE),
        (running(), ALIKE),
        (queued(), ALIKE),
        (load(state=State.SUCCEEDED), ALIKE),
    ],
    ids=["two loads", "none", "other size", "other backend", "longer than all", "ended", "unplaced", "queued", "done"],
)
def test_an_eta_is_left_out_rather_than_guessed(job: Job, history: list[LoadDurations]) -> None:
    assert eta(job, history) is None


def test_a_file_that_grew_a_little_is_the_same_load_and_no_file_is_no_size() -> None:
    assert eta(load(size=1080), ALIKE) is not None
    assert eta(load(size=0), ALIKE) is None
    assert eta(load(size=0), [took(100.0, size_bytes=0)] * 3) is not None


def test_where_quick_loads_are_out_of_the_question_the_slow_ones_speak() -> None:
    warm_or_cold = [took(10.0), took(11.0), took(12.0), took(100.0), took(110.0)]
    early, late = eta(load(since=1), warm_or_cold), eta(load(since=40), warm_or_cold)
    assert early is not None and late is not None and late.low is not None
    assert early.seconds < 20 and late.low > 40


def test_installing_counts_what_comes_after_it() -> None:
    said = eta(load(Phase.INSTALLING, 0.5), [took(50.0, staging=30.0, installing=20.0)] * 3)
    assert said is not None and 90 <= said.seconds <= 110


def test_a_placed_load_without_a_first_word_is_pending_since_it_was_asked_for() -> None:
    slow_to_claim = [took(5.0, pending_s=200.0)] * 3
    said = eta(load(Phase.PENDING, 1.0, created_at=at(-150)), slow_to_claim)
    assert said is not None and 50 <= said.seconds <= 85


def test_staging_goes_by_its_own_rate_as_of_the_last_report() -> None:
    assert eta(staging()) == Eta(148), "400 of 1000 bytes in 100 s until the report, which is 2 s old"
    with_later = eta(staging(), [took(100.0, staging=9.0)] * 3)
    assert with_later is not None and with_later.low is not None and 235 <= with_later.seconds <= 260


@pytest.mark.parametrize(
    "job", [staging(0), staging(since=2.5), staging(1000), staging(bytes_total=0), staging(phase_started_at=None)]
)
def test_a_rate_that_means_nothing_is_not_used(job: Job) -> None:
    assert eta(job) is None


def test_staging_without_a_rate_yet_goes_by_the_loads_before_it() -> None:
    said = eta(staging(0, since=1), [took(100.0, staging=50.0)] * 3)
    assert said is not None and 130 <= said.seconds <= 160


# What the page promises


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    return measure()


def test_the_bounds_hold_what_they_promise_on_every_kind_of_load(answers: list[Answer]) -> None:
    assert outside_band(answers) == [], f"seed {SEED}"


@pytest.mark.parametrize(("low", "high"), [(0.4, 0.6), (0.0, 1.0)])
def test_the_calibration_tells_bounds_that_are_too_narrow_or_too_wide(
    low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localai.loads.eta_rules.LOW", low)
    monkeypatch.setattr("localai.loads.eta_rules.HIGH", high)
    assert not ALL[0] <= coverage(measure(loads=20)) <= ALL[1]
