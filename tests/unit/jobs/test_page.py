"""The page about jobs is made from the state machine, and says what is true of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.jobs.job import State
from localai.jobs.kinds import KINDS
from localai.jobs.rules import MOVES, moves_table

pytestmark = pytest.mark.unit
PAGE = (Path(__file__).parents[3] / "docs/reference/jobs.md").read_text(encoding="utf-8")


def test_the_table_of_moves_is_the_one_of_the_rules() -> None:
    table = PAGE.partition("<!-- moves -->\n")[2].partition("<!-- /moves -->")[0]
    assert table == moves_table(), "make the table anew: localai.jobs.rules.moves_table()"


def test_the_drawing_has_every_move_that_changes_the_state() -> None:
    for move in MOVES:
        if move.target is None:
            continue
        for source in move.sources:
            arrow = f"{source.value} --> {move.target.value}: "
            if move.event.__name__ == "WorkGone" and source is State.QUEUED:
                continue  # a cleanup whose process ended before anybody took the job
            assert arrow in PAGE, arrow


def test_every_kind_is_on_the_page() -> None:
    assert all(f"`{kind}`" in PAGE for kind in KINDS)
