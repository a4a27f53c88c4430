"""What each part of a load may take. LJ-03, LJ-05."""

from __future__ import annotations

import pytest

from localai.jobs.job import Job
from localai.jobs.operation_rules import OpState, Phase
from localai.loads.budget_rules import GIB, Budgets, bound, load_budget, silent
from tests.unit.jobs.builders import NOW, at, claimed, running, sent

pytestmark = pytest.mark.unit
BUDGETS = Budgets()


@pytest.mark.parametrize(
    ("size", "pinned", "seconds"),
    [
        (None, 0, 300),
        (0, 0, 300),
        (2 * GIB, 0, 340),
        (70 * GIB, 0, 1700),
        (600 * GIB, 0, 12_300),
        (5000 * GIB, 0, 21_600),
        (70 * GIB, 2, 2),
        (None, 90, 90),
    ],
)
def test_lj_05_the_budget_grows_with_the_bytes_up_to_a_cap_unless_pinned(
    size: int | None, pinned: float, seconds: float
) -> None:
    assert load_budget(size, pinned).seconds == pytest.approx(seconds)


def test_lj_05_the_reason_names_size_and_setting() -> None:
    reason = load_budget(2 * GIB).reason
    assert "2.00 GiB" in reason and "340 s" in reason and "LOCALAI_NATS_MODEL_LOAD_TIMEOUT" in reason
    assert "pinned" in load_budget(None, 5).reason
    assert "unknown size" in load_budget(None).reason
    assert "the cap" in load_budget(10_000 * GIB).reason


def _bound_s(job: Job, size: int | None = None, budgets: Budgets = BUDGETS) -> float:
    limit = bound(job, budgets, load_budget(size, budgets.pinned_load_s))
    assert limit is not None
    return (limit.at - NOW).total_seconds()


def test_before_it_is_placed_a_load_has_no_bound_of_its_own() -> None:
    assert bound(running(), BUDGETS, load_budget(None)) is None


def test_steps_without_progress_have_the_base_budget_from_the_placement() -> None:
    job = claimed(placed_at=NOW, started_at=NOW, phase=Phase.INSTALLING, phase_started_at=NOW)
    assert _bound_s(job) == 1500
    assert _bound_s(job, budgets=Budgets(install_s=3600)) == 3600 + 300 + 300


def test_lj_03_staging_is_bounded_by_silence_and_not_by_its_length() -> None:
    old = {"placed_at": at(-50_000), "started_at": at(-50_000), "phase": Phase.STAGING, "phase_started_at": at(-49_000)}
    assert _bound_s(claimed(**old, progress_at=at(-1))) == 299
    assert _bound_s(claimed(**old, progress_at=at(-400))) < 0
    fresh = claimed(placed_at=NOW, started_at=NOW, phase=Phase.STAGING, phase_started_at=NOW)
    assert _bound_s(fresh) == 300, "a phase that begins has moved"
    limit = bound(fresh, BUDGETS, load_budget(None))
    assert limit is not None and limit.stalled and "LOCALAI_STAGING_STALL_WINDOW" in limit.text


def test_the_load_phase_widens_the_budget_to_that_of_the_checkpoint() -> None:
    job = claimed(placed_at=at(-600), started_at=at(-600), phase=Phase.LOADING, phase_started_at=NOW)
    assert _bound_s(job, 70 * GIB) == 30 + 1700 + 300
    assert _bound_s(job, None) == 900, "never less than the base leaves"
    limit = bound(job, BUDGETS, load_budget(70 * GIB))
    assert limit is not None and "70.00 GiB" in limit.text


@pytest.mark.parametrize("phase", list(Phase))
def test_the_cap_ends_every_phase_even_with_progress(phase: Phase) -> None:
    day = 24 * 3600
    job = claimed(placed_at=at(-60), started_at=at(-day - 1), phase=phase, phase_started_at=NOW, progress_at=NOW)
    assert _bound_s(job) == -1
    limit = bound(job, BUDGETS, load_budget(None))
    assert limit is not None and "LOCALAI_STAGING_MAX_DURATION" in limit.text


@pytest.mark.parametrize(
    ("job", "quiet"),
    [
        (sent(placed_at=at(-105)), False),
        (sent(placed_at=at(-106)), True),
        (claimed(placed_at=at(-1000), op_seen_at=at(-105)), False),
        (claimed(op_seen_at=at(-106), node_name="gpu-1"), True),
        (claimed(op_state=OpState.READY, op_seen_at=at(-1000)), False),
    ],
)
def test_an_operation_nobody_hears_of_is_silent(job: Job, quiet: bool) -> None:
    said = silent(job, BUDGETS, NOW)
    assert (said is not None) == quiet
    if said and job.node_name:
        assert "gpu-1" in said
