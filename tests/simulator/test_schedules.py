"""The engine's real steps under crashes, pauses, lost and doubled messages: the short form of `make sim`."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulator.mutants import MUTANTS
from tests.simulator.run import one, several
from tests.simulator.schedules import ALL, without

pytestmark = pytest.mark.simulator
SCHEDULES = 250


def test_no_schedule_breaks_a_rule_of_the_protocol() -> None:
    seen = several(range(SCHEDULES))
    assert seen.broken == [], "python -m tests.simulator.run --trace SEED shows what happened"
    assert seen.schedules == SCHEDULES
    assert len(seen.struck) >= 40, f"crashes and freezes must fall at most step boundaries: {seen.struck}"
    assert {"succeeded", "failed", "cancelled", "requeued", "adopted", "resent", "stop_confirmed"} <= set(seen.events)


def test_a_run_is_as_many_schedules_as_asked_for_and_more_until_its_time_has_come() -> None:
    assert several(range(100), least=3).schedules == 3
    assert several(range(5), least=3, until=float("inf")).schedules == 5


def test_a_seed_is_a_schedule() -> None:
    (first, _), (second, _) = one(7), one(7)
    assert first.tables.job_events == second.tables.job_events
    assert first.tables.job_events != one(8)[0].tables.job_events


def test_what_mutants_are_tried_with_breaks_no_rule_of_the_engine_as_it_is() -> None:
    for profile in dict.fromkeys(mutant.profile for mutant in MUTANTS):
        for seed in range(4):
            _, broken = one(seed, profile)
            assert broken == [], f"seed {seed} of {profile}"


def test_with_adoption_off_every_load_whose_owner_is_lost_ends() -> None:
    seen = Counter[str]()
    for seed in range(60):
        world, broken = one(seed, without(ALL, adoption=0.0))
        assert broken == [], f"seed {seed}"
        seen.update(event.event for event in world.tables.job_events)
        seen["owner_lost"] += sum(job.error_cause == "owner_lost" for job in world.tables.jobs.values())
    assert seen["adopted"] == 0 < seen["owner_lost"]
