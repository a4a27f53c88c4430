"""A model that cannot start: three tries and no more, on each node; then a person edits, repairs and retries."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import httpx2
import pytest

from tests.acceptance.cluster import API_KEY, LIMIT_S, Cluster, Frontend, clean_environment, localai, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.timeout(600)]

AFTER = 3
#: A failed load holds its model for a second.
SHORT = {"LOCALAI_REPORT_WINDOW": "1s", "LOCALAI_WAITER_POLL_INTERVAL": "250ms"}


def localai_says(frontend: Frontend, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(), "LOCALAI_URL": frontend.url, "LOCALAI_API_KEY": API_KEY}
    return subprocess.run(
        [*localai(), *arguments], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def attempts(frontend: Frontend, model: str) -> list[dict[str, Any]]:
    return frontend.jobs(kind="model.load", subject=model)


def refusal(frontend: Frontend, model: str) -> httpx2.Response:
    """Ask until the answer is a quarantine, as a client does that honours no Retry-After."""

    def asked() -> httpx2.Response | None:
        response = frontend.chat(model)
        assert response.status_code == 503, response.text
        return response if response.json()["error"]["code"] == "model_quarantined" else None

    return wait_for(f"the quarantine of {model}", asked)


def nodes_tried(frontend: Frontend, model: str) -> list[str]:
    return sorted(job["node_name"] for job in attempts(frontend, model))


def told_of(response: httpx2.Response) -> list[tuple[str, str, int]]:
    streaks = response.json()["loading"]["quarantined"]
    return [(streak["node"], streak["cause"], streak["failures"]) for streak in streaks]


def test_lj_08_a_backend_that_exits_at_every_start_is_tried_three_times_on_each_node_and_then_refused(
    cluster: Cluster,
) -> None:
    cluster.variables.update(SHORT)
    cluster.servers()
    frontend = cluster.frontend("f1")
    cluster.worker("n1", frontend)
    frontend.wait_for_nodes(1)
    cluster.model("broken", "fault", "start_exit:3", "stderr:no such device")
    frontend.wait_for_model("broken")

    refused = refusal(frontend, "broken")
    assert told_of(refused) == [("n1", "start_failed", AFTER)]
    assert "its last 3 loads failed with start_failed" in refused.json()["error"]["message"]
    assert frontend.chat("broken").json()["error"]["code"] == "model_quarantined"
    assert nodes_tried(frontend, "broken") == ["n1"] * AFTER, "no further attempt is made"

    # A second node is tried as often
    cluster.worker("n2", frontend)
    frontend.wait_for_nodes(2)
    wait_for("an attempt on n2", lambda: frontend.chat("broken") and "n2" in nodes_tried(frontend, "broken"))
    assert told_of(refusal(frontend, "broken")) == [("n1", "start_failed", AFTER), ("n2", "start_failed", AFTER)]
    assert nodes_tried(frontend, "broken") == ["n1"] * AFTER + ["n2"] * AFTER

    # A retry lifts both, and the failure that follows is the first of a new row
    retried = localai_says(frontend, "jobs", "retry", "broken", "--wait")
    assert retried.returncode == 1 and "ended with status 3" in retried.stderr, retried.stderr
    held = localai_says(frontend, "jobs", "retry", attempts(frontend, "broken")[0]["id"], "-o", "json")
    assert held.returncode == 0, held.stderr
    assert json.loads(held.stdout)["lifted"] == 0, "one failure is no quarantine"

    # The edit that mends it needs no word to anybody
    refusal(frontend, "broken")
    cluster.model("broken", "fault")
    assert frontend.chat_until_answered("broken").status_code == 200
