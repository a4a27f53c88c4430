"""What the exit code of an agent says about its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from worker_agent import ending
from worker_agent.ending import Ending, Why
from worker_agent.main import _exit_code

pytestmark = pytest.mark.unit

STUCK: Any = SimpleNamespace(name="m#0", pid=7)


@pytest.mark.parametrize(
    ("left", "why", "code"),
    [
        ([], Why.SIGNAL, 0),
        ([], Why.UNKNOWN, 0),
        ([], Why.REPLACED, ending.EXIT_REPLACED),
        ([STUCK], Why.SIGNAL, ending.EXIT_LEFT_BEHIND),
        ([STUCK], Why.REPLACED, ending.EXIT_LEFT_BEHIND),
    ],
)
def test_sc_05_the_exit_code_says_whether_everything_ended(
    left: list[Any], why: Why, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    asked = Ending()
    asked.ask(why, "a test")
    assert _exit_code(left, asked) == code
    said = [str(record.__dict__.get("fields")) for record in caplog.records if record.levelname == "ERROR"]
    assert [line for line in said if "m#0 (group 7)" in line] == said
    assert bool(said) == bool(left)
