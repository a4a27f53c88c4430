"""The page about the command line is made from the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.cli import main, reference
from localai.cli.exit_codes import ExitCode

pytestmark = pytest.mark.unit
PAGE = Path(__file__).parents[3] / "docs/reference/cli.md"


def test_the_page_is_the_one_of_the_commands() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference.page(), "make it anew: make fmt"


def test_every_command_and_every_exit_code_is_on_it() -> None:
    text = reference.page()
    assert all(f"## `localai {name}" in text for name in main.COMMANDS)
    assert all(f"| {code.value} | " in text for code in ExitCode)
    assert "## `localai jobs watch`" in text and "`localai jobs watch [OPTIONS] ID`" in text


def test_what_stands_in_angle_brackets_is_no_html() -> None:
    outside = [part for number, part in enumerate(reference.page().split("`")) if number % 2 == 0]
    assert not [part for part in outside if "<" in part.replace("\\<", "")]
