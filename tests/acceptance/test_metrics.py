"""Figures of a whole frontend and of its worker, after one model was asked for."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests import plain_http
from tests.acceptance.cluster import Cluster, Frontend, wait_for

pytestmark = pytest.mark.acceptance

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples_of(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def at(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


def scrape(frontend: Frontend) -> Samples:
    response = frontend.get("/metrics")
    assert response.status_code == 200, response.text
    return samples_of(response.text)


def agent_metrics(frontend: Frontend) -> Samples:
    """What the agent's own HTTP server says."""
    (node,) = frontend.nodes()
    return samples_of(plain_http.get(f"http://{node['http_address']}/metrics", timeout=10).text)


def test_control_web_and_agent_answer_for_what_they_did(machine: Cluster, up: Frontend) -> None:
    model = machine.model("measured", "fault", "load_delay:1s")
    up.wait_for_model(model)
    before = scrape(up)
    assert up.chat_until_answered(model).status_code == 200
    (node,) = [node["name"] for node in up.nodes()]

    def more(found: Samples, name: str, **labels: str) -> float:
        return at(found, name, **labels) - at(before, name, **labels)

    def control_has_told() -> Samples | None:
        found = scrape(up)
        return found if at(found, "localai_load_seconds_count", model=model, outcome="succeeded") else None

    found = wait_for("the end of the load in the figures of the frontend", control_has_told)
    # An earlier load may be counted late, too: control writes its figures once a second.
    assert more(found, "localai_jobs_ended_total", kind="model.load", phase="loading", outcome="succeeded") >= 1
    assert at(found, "localai_requests_total", model=model, node=node, outcome="ok") == 1
    assert at(found, "localai_load_seconds_count", model=model, outcome="succeeded") == 1
    assert at(found, "localai_load_seconds_sum", model=model, outcome="succeeded") >= 1
    assert at(found, "localai_queue_depth", queue=node) == 0
    assert at(found, "localai_unconfirmed_stops", node=node) == 0
    assert more(found, "localai_lease_losses_total", kind="model.load", outcome="failed") == 0

    worker = agent_metrics(up)
    assert at(worker, "localai_load_phase_seconds_count", model=model, phase="loading", outcome="ok") == 1
    assert at(worker, "localai_load_phase_seconds_sum", model=model, phase="loading", outcome="ok") >= 1
    assert not [name for name, _ in worker if name.startswith(("localai_requests", "localai_waiters"))]
