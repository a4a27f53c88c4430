"""What each part of a load may take. LJ-03, LJ-05."""

from __future__ import annotations

import pytest

from localai.jobs.job import Job
from localai.jobs.operation_rules import OpState, Phase
from localai.loads.budget_rules import GIB, MIB, Budgets, bound, install_bound, load_budget, silent, size_text
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
    setting = "LOCALAI_NATS_MODEL_LOAD_TIMEOUT"
    assert load_budget(2 * GIB).reason == f"300 s + 20 s/GiB for 2.00 GiB; {setting} pins another"
    assert load_budget(2 * GIB, 2).reason == f"pinned by {setting}; 2.00 GiB would give 340 s"
    assert load_budget(None).reason == f"the size of the model is not known; {setting} pins another"
    assert load_budget(None, 5).reason == f"pinned by {setting}; the size of the model is not known"
    capped = load_budget(10_000 * GIB).reason
    assert capped == f"the cap of 300 s + 20 s/GiB for 10000.00 GiB; {setting} pins another"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (99_999, "99999 bytes"), (MIB, "1.0 MiB"), (135 * MIB, "0.13 GiB"), (70 * GIB, "70.00 GiB")],
)
def test_a_size_is_said_in_a_unit_that_shows_it(size: int, text: str) -> None:
    assert size_text(size) == text


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
    assert _bound_s(job, budgets=Budgets(pinned_load_s=7200)) == 900 + 7200 + 300, "a pinned limit is never clipped"
    assert _bound_s(job, budgets=Budgets(install_s=2, pinned_load_s=2, slack_s=1, base_least_s=4)) == 5
    limit = bound(job, BUDGETS, load_budget(None))
    assert limit is not None
    for word in ("1500 s", "LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT (900 s)", "LOCALAI_NATS_MODEL_LOAD_TIMEOUT (300 s)"):
        assert word in limit.text


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
    assert limit is not None
    for word in ("2030 s", "1700 s", "70.00 GiB", "LOCALAI_NATS_MODEL_LOAD_TIMEOUT"):
        assert word in limit.text


@pytest.mark.parametrize("size", [None, 0, 2 * GIB, 70 * GIB, 600 * GIB, 10_000 * GIB])
@pytest.mark.parametrize("pinned", [0.0, 2.0, 90_000.0])
def test_lj_03_no_limit_of_the_agent_outlasts_the_bound_of_the_owner(size: int | None, pinned: float) -> None:
    """Start and LoadModel, one after the other, fit into what the owner gives the load phase, wherever it begins."""
    budgets = Budgets(pinned_load_s=pinned, start_s=120, max_duration_s=1e6)
    for begun_s in (0.0, 1500.0, 40_000.0):
        job = claimed(placed_at=at(-begun_s), started_at=at(-begun_s), phase=Phase.LOADING, phase_started_at=NOW)
        assert _bound_s(job, size, budgets) >= 120 + load_budget(size, pinned).seconds + budgets.slack_s


def test_lj_04_fetching_and_hashing_here_are_bounded_by_silence_and_the_cap_too() -> None:
    assert install_bound(running(started_at=None), BUDGETS) is None
    old = {"started_at": at(-50_000), "phase_started_at": at(-49_000), "message": "weights.gguf"}
    for moved_s, left_s in ((-1, 299), (-400, -100)):
        limit = install_bound(running(**old, progress_at=at(moved_s)), BUDGETS)
        assert limit is not None and limit.stalled
        assert (limit.at - NOW).total_seconds() == left_s
        assert "300 s" in limit.text and "weights.gguf" in limit.text and "LOCALAI_STAGING_STALL_WINDOW" in limit.text
    taken_again = running(started_at=at(-900), phase_started_at=NOW, progress_at=at(-600))
    limit = install_bound(taken_again, BUDGETS)
    assert limit is not None and (limit.at - NOW).total_seconds() == 300, "a new owner begins anew"
    capped = install_bound(running(started_at=at(-24 * 3600 - 1), phase_started_at=NOW, progress_at=NOW), BUDGETS)
    assert capped is not None and not capped.stalled
    assert (capped.at - NOW).total_seconds() == -1 and "LOCALAI_STAGING_MAX_DURATION" in capped.text


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
    if said:
        assert "105 s (LOCALAI_WORKER_KILL_TTL of 90 s and a sixth)" in said
    if said and job.node_name:
        assert "gpu-1" in said
