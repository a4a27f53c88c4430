"""The chain without NATS: waiters poll the row, renewals and stops come as answers to the agent's reports."""

from __future__ import annotations

import pytest

from tests.acceptance.cluster import Cluster, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


def test_a_cold_load_needs_no_bus(cluster: Cluster) -> None:
    cluster.servers()
    cluster.variables.update(LOCALAI_NATS_URL="", LOCALAI_WORKER_NATS_URL="")
    frontend = cluster.frontend("frontend")
    cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    cluster.model("plain", "fault", "load_delay:2s")
    frontend.wait_for_model("plain")
    assert "plain" in frontend.chat_until_answered("plain").text
    assert frontend.statements_of(frontend.chat("plain")) == 0


def test_lj_06_the_load_of_a_dead_owner_is_stopped_by_the_answer_to_a_report(cluster: Cluster) -> None:
    cluster.servers()
    cluster.variables.update(LOCALAI_NATS_URL="", LOCALAI_WORKER_NATS_URL="")
    frontend = cluster.frontend("frontend", LOCALAI_MODEL_LOAD_WAIT="1s", LOCALAI_JOB_ADOPTION="false")
    worker = cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    cluster.model("orphaned", "fault", "load_delay:30s")
    frontend.wait_for_model("orphaned")
    assert frontend.chat("orphaned").status_code == 503
    process = worker.child("backend.py", "--addr")
    frontend.process.child("tasks.control").kill()
    status = wait_for("the load failed", lambda: _held(frontend))
    assert status["error_cause"] == "owner_lost"
    process.wait(30)
    refused = frontend.chat("orphaned")
    assert refused.status_code == 503


def _held(frontend: object) -> dict[str, object] | None:
    jobs = frontend.jobs(kind="model.load", subject="orphaned", state="failed")  # type: ignore[attr-defined]
    return jobs[0] if jobs else None
