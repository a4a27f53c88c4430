"""Pages of the reference are written by the command that finds out whether they are stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.generated_pages import page_command

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]


def command(*arguments: str | Path) -> int:
    return page_command("some.module", lambda: "the page\n", [str(argument) for argument in arguments])


def test_a_page_that_was_written_is_fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    assert command("--write", page) == 0
    assert page.read_text(encoding="utf-8") == "the page\n"
    assert command("--check", page) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("content", ["the page\nmore\n", None], ids=["other", "missing"])
def test_a_page_that_is_other_or_missing_is_stale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    page = tmp_path / "page.md"
    if content is not None:
        page.write_text(content, encoding="utf-8")
    assert command("--check", page) == 1
    assert capsys.readouterr().err == f"{page} is stale: run `make fmt`\n"


def test_one_of_the_two_is_to_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command()
    assert "usage: python -m some.module" in capsys.readouterr().err


def test_every_page_that_make_writes_is_checked_too() -> None:
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    written = [line.replace("--write", "--check") for line in lines if " --write " in line]
    assert len(written) == 7
    assert [line for line in written if line not in lines] == []
