"""Subjects are what docs/reference/bus.md says, and nothing a caller passes can widen one."""

from __future__ import annotations

import pytest

from localai.bus import subjects

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "token"),
    [("plain", "plain"), ("a.b*c>d e\tf\ng\rh", "a-b-c-d-e-f-g-h"), ("", "-"), ("größe-1_2", "größe-1_2")],
)
def test_a_token_has_no_character_with_a_meaning(text: str, token: str) -> None:
    assert subjects.token(text) == token


def test_subjects_are_the_documented_ones() -> None:
    assert subjects.job_progress("j") == "jobs.j.progress"
    assert subjects.job_result("j") == "jobs.j.result"
    assert subjects.node_operation("n", subjects.MODEL_STOP) == "nodes.n.model.stop"
    assert (subjects.ROUTING_CHANGED, subjects.NODES_CHANGED) == ("routing.changed", "nodes.changed")


def test_an_id_cannot_become_a_pattern_or_another_subject() -> None:
    assert subjects.job_result("*") == "jobs.-.result"
    assert subjects.node_operation("a.model.stop.b", "model.stop") == "nodes.a-model-stop-b.model.stop"


def test_the_job_of_a_subject_is_read_back() -> None:
    assert subjects.job_of(subjects.job_result("abc")) == "abc"
    for subject in ("routing.changed", "jobs.abc", "nodes.abc.result"):
        with pytest.raises(ValueError, match="not about a job"):
            subjects.job_of(subject)


@pytest.mark.parametrize(
    ("pattern", "subject", "matched"),
    [
        ("jobs.a.result", "jobs.a.result", True),
        ("jobs.a.result", "jobs.b.result", False),
        ("jobs.*.result", "jobs.a.result", True),
        ("jobs.*.result", "jobs.a.b.result", False),
        ("jobs.*", "jobs.a.result", False),
        ("jobs.>", "jobs.a.result", True),
        ("jobs.>", "jobs", False),
        (">", "jobs", True),
        ("jobs.a", "jobs", False),
        ("*.*", "routing.changed", True),
    ],
)
def test_patterns_match_as_nats_does(pattern: str, subject: str, matched: bool) -> None:
    assert subjects.matches(pattern, subject) is matched
