"""How statements are named, and that every file of ours keeps to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localai.db.queries import Queries, load_queries, parse

pytestmark = pytest.mark.unit
ROOT = Path(__file__).resolve().parents[3]
PACKAGES = [".".join(path.relative_to(ROOT).parent.parts) for path in sorted((ROOT / "localai").glob("*/queries.sql"))]
#: Ages of files, times that are shown, and a browser's session: none of them decides about a job.
WALL_CLOCKS = {
    "localai/galleries/workspaces.py",
    "web/auth/sessions.py",
    "web/openai/chat.py",
    "web/openai/completions.py",
    "worker_agent/install/backends.py",
    "worker_agent/main.py",
}


def test_a_statement_has_a_name_and_loses_its_comments_and_its_semicolon() -> None:
    found = parse(
        "-- about the file\n-- one --\n-- Why, at 100 %.\nSELECT 1 -- here\n  FROM t;\n\n-- two --\nSELECT 2;\n"
    )
    assert found == {"one": "SELECT 1\n  FROM t", "two": "SELECT 2"}


@pytest.mark.parametrize("text", ["SELECT 1;", "-- a --\nSELECT 1;\n-- a --\nSELECT 2;"])
def test_a_statement_without_a_name_or_with_a_taken_one_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name"):
        parse(text)


def test_an_unknown_name_is_an_error_that_names_the_file() -> None:
    with pytest.raises(KeyError, match="jobs/queries"):
        Queries("jobs/queries.sql", {})["nothing"]


@pytest.mark.parametrize("package", PACKAGES)
def test_lj_07_statements_judge_time_by_the_clock_of_the_database_at_that_moment(package: str) -> None:
    other = r"\bnow\(\)|\b(current|local)_?time(stamp)?\b|\b(transaction|statement)_timestamp\b|\btimeofday\b"
    for name, statement in load_queries(package).items():
        assert not re.search(other, statement, re.IGNORECASE), name
        assert ";" not in statement, name


def test_lj_07_no_process_asks_a_wall_clock_of_its_own_about_work() -> None:
    asks = re.compile(r"\btime\.time(_ns)?\b|\bdatetime\.(now|utcnow|today)\b|\bdate\.today\b")
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("localai", "tasks", "web", "worker_agent")
        for path in (ROOT / package).rglob("*.py")
        if "builtin" not in path.parts and asks.search(path.read_text(encoding="utf-8"))
    }
    assert found == WALL_CLOCKS


@pytest.mark.parametrize("package", PACKAGES)
def test_every_update_says_which_row_it_may_touch(package: str) -> None:
    for name, statement in load_queries(package).items():
        if statement.lstrip().startswith("UPDATE") and "routing_version" not in statement:
            assert "WHERE" in statement, name
