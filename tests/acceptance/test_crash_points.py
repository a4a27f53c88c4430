"""Kill -9 of our own processes at exactly every numbered point: the table of what is left is the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localai.crash_points import POINTS
from tests.acceptance.crash_sweep import Sweep
from tests.acceptance.crash_table import CASES, Case

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`--whole` tries every row, otherwise those of the short sweep."""
    if "case" in metafunc.fixturenames:
        whole = metafunc.config.getoption("whole", default=False)
        metafunc.parametrize("case", [case for case in CASES if whole or case.short], ids=lambda case: case.point)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    sweep = Sweep(tmp_path_factory.mktemp("crash"))
    try:
        yield sweep
    finally:
        sweep.close()


def test_a_death_at_any_point_leaves_what_the_table_says(sweep: Sweep, case: Case) -> None:
    sweep.run(case)


def test_every_point_has_its_row() -> None:
    rows = [case.point for case in CASES]
    assert len(rows) == len(set(rows))
    assert set(POINTS) == {point for point in rows if not point.startswith("process.")}
