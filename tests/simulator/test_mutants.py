"""Each rule of the job protocol, taken out, turns the checker red: a proof that the checker could see it broken."""

from __future__ import annotations

import pytest

from tests.simulator.checker import RULES
from tests.simulator.mutants import MUTANTS, Mutant, search

pytestmark = pytest.mark.simulator
#: Several times what the slowest one took when it was written.
SCHEDULES = 400


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.protects}: {mutant.name}")
def test_the_checker_sees_the_rule_taken_out(mutant: Mutant) -> None:
    red = search(mutant, SCHEDULES)
    assert red is not None, f"green in {SCHEDULES} schedules from seed {mutant.seed}"


def test_every_rule_of_the_checker_is_what_some_mutant_is_seen_by() -> None:
    assert {rule for mutant in MUTANTS for rule in mutant.seen_by} == set(RULES)


def test_every_invariant_and_counterexample_that_exists_by_now_has_its_mutant() -> None:
    protected = {word.strip() for mutant in MUTANTS for word in mutant.protects.split(",")}
    invariants = {f"I{number}" for number in range(1, 13)} - {"I7", "I8"}
    counterexamples = {f"C{number}" for number in range(1, 23)} - {f"C{number}" for number in range(16, 21)}
    assert invariants | counterexamples <= protected
