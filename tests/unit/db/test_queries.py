"""How statements are named, and that every file of ours keeps to it."""

from __future__ import annotations

import re

import pytest

from localai.db.queries import Queries, load_queries, parse

pytestmark = pytest.mark.unit
PACKAGES = ["localai.jobs", "localai.loads", "localai.nodes", "localai.replicas", "localai.routing"]


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
def test_statements_judge_time_by_the_clock_of_the_database_at_that_moment(package: str) -> None:
    for name, statement in load_queries(package).items():
        assert not re.search(r"\bnow\(\)|current_timestamp", statement, re.IGNORECASE), name
        assert ";" not in statement, name


@pytest.mark.parametrize("package", PACKAGES)
def test_every_update_says_which_row_it_may_touch(package: str) -> None:
    for name, statement in load_queries(package).items():
        if statement.lstrip().startswith("UPDATE") and "routing_version" not in statement:
            assert "WHERE" in statement, name
