"""A revision comes into force only with a proof that it is newer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from localai.models.revision_rules import Evidence, InForce, Standing, judge

pytestmark = pytest.mark.unit

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def in_force(revision: str | None = "x", *, serves: bool = True, since_s: float = -100) -> InForce:
    return InForce(revision=revision, since=at(since_s) if revision else None, serves=serves, now=NOW)


@pytest.mark.parametrize(
    ("evidence", "held", "standing"),
    [
        (Evidence(), in_force("y"), Standing.STANDS),
        (Evidence(), in_force(), Standing.OTHER),
        (Evidence(was="x"), in_force(), Standing.SET),
        (Evidence(was="w"), in_force(), Standing.OTHER),
        (Evidence(changed_at=at(-50)), in_force(), Standing.SET),
        (Evidence(changed_at=at(-150)), in_force(), Standing.OTHER),
        (Evidence(changed_at=at(1)), in_force(), Standing.OTHER),
        (Evidence(for_load=True), in_force(), Standing.OTHER),
        (Evidence(for_load=True), in_force(serves=False), Standing.SET),
        (Evidence(for_load=True), in_force(None), Standing.SET),
        (Evidence(was="x", changed_at=at(-50)), in_force(None), Standing.NEVER_SERVED),
    ],
    ids=[
        "the same",
        "nothing is known",
        "seen to change from it",
        "seen to change from another",
        "written after it came into force",
        "written before it came into force",
        "written in the future proves nothing",
        "a load beside a serving replica",
        "a load that replaces nothing",
        "the first load",
        "no load yet",
    ],
)
def test_a_revision_needs_a_proof(evidence: Evidence, held: InForce, standing: Standing) -> None:
    assert judge("y", evidence, held) is standing


def test_two_frontends_with_different_files_do_not_take_turns() -> None:
    """Each starts again and again without a memory; the file that was written last stands."""
    older, newer = Evidence(changed_at=at(-90)), Evidence(changed_at=at(-80))
    assert judge("y", newer, in_force("x")) is Standing.SET
    for _ in range(3):
        assert judge("x", older, in_force("y", since_s=-60)) is Standing.OTHER
        assert judge("y", newer, in_force("y", since_s=-60)) is Standing.STANDS
