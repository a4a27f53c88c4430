"""The table of metrics keeps its own rules, and moves of jobs and phases of operations are counted by it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from localai import metrics
from localai.jobs import counts
from localai.jobs.event_rules import Cancel, ConfirmStop, Event, Fail, Finish, Lapse, Place, Requeue, Take
from localai.jobs.job import State
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import Phase
from tests.unit.jobs.builders import at, queued, running
from worker_agent.metrics import PhaseTimes

pytestmark = pytest.mark.unit

#: What a label may be called: each takes its values from configs, rows, routes or words of the code.
LABELS = {
    "cause",
    "model",
    "node",
    "phase",
    "outcome",
    "kind",
    "state",
    "move",
    "queue",
    "source",
    "method",
    "path",
    "version",
}
ROOT = Path(__file__).parents[3]


def value(sample: str, **labels: str) -> float:
    """What this process counted under a name."""
    families = [family for by in (metrics.FRONTEND, metrics.AGENT) for family in metrics.collected(by)]
    found = [s.value for family in families for s in family.samples if (s.name, s.labels) == (sample, labels)]
    return found[0] if found else 0.0


@pytest.fixture
def grown() -> Callable[..., float]:
    """By how much a figure grew since the last look; the first look is for the start of the test."""
    seen: dict[str, float] = {}

    def look(sample: str, **labels: str) -> float:
        key, now = f"{sample}{labels}", value(sample, **labels)
        before = seen.get(key, 0.0)
        seen[key] = now
        return now - before

    return look


def test_names_units_and_labels_keep_the_rules() -> None:
    for metric in metrics.table():
        assert metric.name == "api_call" or re.fullmatch(r"localai_[a-z_]+", metric.name)
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        if metric.unit in ("seconds", "bytes") and metric.name != "api_call":
            assert metric.unit in metric.name
        assert set(metric.labels) <= LABELS
        assert metric.meaning.endswith(".") and metric.shown_by


def test_the_page_is_made_from_the_table() -> None:
    assert (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8") == metrics.metrics_page()


@pytest.mark.parametrize("by", [metrics.FRONTEND, metrics.AGENT])
def test_a_scrape_can_be_read_and_shows_what_the_table_promises(by: str) -> None:
    text = metrics.exposition(metrics.collected(by)).decode()
    shown = {family.name for family in text_string_to_metric_families(text)}
    promised = {m.name.removesuffix("_total") for m in metrics.table() if by in m.shown_by and "scrape" not in m.kind}
    assert shown == promised | {"localai_build_info"}


@pytest.mark.parametrize(
    ("event", "state", "outcome"),
    [(Finish, State.SUCCEEDED, "succeeded"), (Fail, State.FAILED, "failed"), (Cancel, State.CANCELLED, "cancelled")],
)
def test_an_end_is_counted_once_with_its_phase(
    event: type[Event], state: State, outcome: str, grown: Callable[..., float]
) -> None:
    labels = {"kind": "model.load", "phase": "staging", "outcome": outcome}
    duration = {"model": "m", "outcome": outcome}
    grown("localai_jobs_ended_total", **labels)
    grown("localai_load_seconds_sum", **duration)
    job = running(state=state, phase=Phase.STAGING)
    counts.count_move(event, job)
    counts.count_move(ConfirmStop, job)
    assert grown("localai_jobs_ended_total", **labels) == 1
    assert grown("localai_load_seconds_sum", **duration) == 60, "from the request to the end by the database clock"


def test_only_loads_have_a_load_time(grown: Callable[..., float]) -> None:
    grown("localai_load_seconds_count", model="wheel", outcome="succeeded")
    counts.count_move(Finish, running(kind=MODEL_INSTALL, subject="wheel", state=State.SUCCEEDED))
    assert grown("localai_load_seconds_count", model="wheel", outcome="succeeded") == 0


def test_the_pending_phase_lasts_from_the_request_to_the_node(grown: Callable[..., float]) -> None:
    labels = {"model": "m", "phase": "pending", "outcome": "ok"}
    grown("localai_load_phase_seconds_sum", **labels)
    counts.count_move(Take, running(created_at=at(-3)))
    counts.count_move(Place, running(created_at=at(-2)))
    assert grown("localai_load_phase_seconds_sum", **labels) == 2


def test_a_lost_lease_is_counted_by_what_became_of_the_job(grown: Callable[..., float]) -> None:
    failed, requeued = ({"kind": "model.load", "outcome": word} for word in ("failed", "requeued"))
    grown("localai_lease_losses_total", **failed)
    grown("localai_lease_losses_total", **requeued)
    counts.count_move(Lapse, running(state=State.FAILED))
    counts.count_move(Requeue, queued())
    assert grown("localai_lease_losses_total", **failed) == 1
    assert grown("localai_lease_losses_total", **requeued) == 1


def test_each_phase_of_an_operation_is_counted_when_it_is_over(grown: Callable[..., float]) -> None:
    now = 0.0
    ok, failed = (
        {"model": "p", "phase": phase, "outcome": how} for phase, how in (("staging", "ok"), ("loading", "failed"))
    )
    grown("localai_load_phase_seconds_sum", **ok)
    grown("localai_load_phase_seconds_sum", **failed)
    times = PhaseTimes(lambda: now)
    times.enter("p", Phase.STAGING)
    now = 2.0
    times.enter("p", Phase.LOADING)
    now = 5.0
    times.end("failed")
    times.end("failed")
    assert grown("localai_load_phase_seconds_sum", **ok) == 2
    assert grown("localai_load_phase_seconds_sum", **failed) == 3
