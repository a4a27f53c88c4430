"""Which failures speak against a node, from when on it is not tried again, and what people read about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from localai.ids import JobId, NodeId
from localai.jobs.job import Job, State
from localai.jobs.operation_rules import Cause
from localai.jobs.quarantine_rules import (
    COUNTED,
    Streak,
    blocking,
    counts,
    has_passed,
    longer,
    quarantined,
    why_not_there,
    why_nowhere,
)
from tests.unit.jobs.builders import NODE, NOW, at, claimed, running

pytestmark = pytest.mark.unit


def failed(cause: str = "start_failed", **changes: Any) -> Job:
    values = {"state": State.FAILED, "error_cause": cause, "error": f"it says {cause}", "finished_at": NOW}
    return claimed(**{**values, "lease_expires_at": None, **changes})


def streak(node: str = "n1", failures: int = 3, **changes: Any) -> Streak:
    values: dict[str, Any] = {"node_id": NodeId(node), "node_name": node, "failures": failures}
    fixed = {"model": "m", "revision": "r1", "cause": "start_failed", "since": at(-90), "last_at": NOW}
    return Streak(**{**fixed, **values, "error": "it exits", "job_id": JobId("job-1"), **changes})


def test_only_what_would_happen_again_counts() -> None:
    never = {
        Cause.OWNER_LOST,
        Cause.CANCELLED,
        Cause.WORKER_RESTARTED,
        Cause.REVISION_CHANGED,
        Cause.OPERATION_LOST,
        Cause.OPERATION_KILLED,
        Cause.INTERNAL,
        Cause.NO_NODE,
        Cause.NO_ROOM,
        Cause.BAD_CONFIG,
    }
    assert not COUNTED & never
    assert {Cause.START_FAILED, Cause.LOAD_REFUSED, Cause.LOAD_TIMEOUT, Cause.BACKEND_INSTALL_FAILED} <= COUNTED
    assert {cause for cause in Cause if counts(failed(cause))} == COUNTED


@pytest.mark.parametrize(
    "job",
    [
        failed(state=State.CANCELLED),
        failed(node_id=None),
        failed(kind="model.install"),
        running(error_cause="start_failed"),
        failed("a cause of another version"),
    ],
)
def test_only_a_load_that_failed_on_a_node_counts(job: Job) -> None:
    assert not counts(job)


def test_a_streak_grows_with_its_cause_and_begins_anew_with_another() -> None:
    first = longer(None, failed(finished_at=at(-60)))
    second = longer(first, failed(finished_at=NOW, id=JobId("job-2")))
    assert (first.failures, second.failures) == (1, 2)
    assert (second.since, second.last_at, second.job_id, second.node_id) == (at(-60), NOW, "job-2", NODE)
    other = longer(second, failed("load_refused", finished_at=at(9)))
    assert (other.failures, other.since, other.error) == (1, at(9), "it says load_refused")


@pytest.mark.parametrize(("failures", "after", "held"), [(2, 3, False), (3, 3, True), (9, 3, True), (9, 0, False)])
def test_a_long_enough_streak_is_a_quarantine_and_none_is_where_it_is_switched_off(
    failures: int, after: int, held: bool
) -> None:
    assert quarantined(streak(failures=failures), after) is held


@pytest.mark.parametrize(("age_s", "held"), [(299, True), (300, False)])
def test_a_quarantine_for_silence_ends_by_itself_because_no_other_load_would_show_the_end_of_it(
    age_s: float, held: bool
) -> None:
    silent = streak(cause=Cause.WORKER_SILENT)
    now = silent.last_at + timedelta(seconds=age_s)
    assert has_passed(silent, now, 300.0) is not held
    assert not has_passed(streak(), now, 300.0)


@pytest.mark.parametrize(
    ("serving", "blocks"),
    [(["n1", "n2"], True), (["n1"], True), (["n1", "n2", "n3"], False), ([], False), (["n3"], False)],
)
def test_a_model_is_refused_only_where_every_serving_node_has_failed_it(serving: list[str], blocks: bool) -> None:
    found = blocking([streak("n1"), streak("n2")], [NodeId(node) for node in serving])
    assert [item.node_name for item in found] == (serving if blocks else [])


def test_the_refusal_names_cause_number_time_and_what_lifts_it() -> None:
    text = why_nowhere("m", [streak("n1"), streak("n2", 4, last_at=at(5), error="it exits too")])
    assert text == (
        "model m is in quarantine, and no other node may hold it: on node n1 its last 3 loads failed with "
        "start_failed, since 2026-01-01T11:58:30Z; on node n2 its last 4 loads failed with start_failed, since "
        "2026-01-01T11:58:30Z. A change of its config or `localai jobs retry m` lifts it. The last error: it exits too"
    )
    assert why_not_there(streak()).startswith("is in quarantine for this model: its last 3 loads failed with ")
    assert streak().to_json()["since"] == "2026-01-01T11:58:30Z"
