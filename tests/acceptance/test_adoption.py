"""A control process dies or stands still under a load: another one goes on with it, and nobody who waits notices."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any

import httpx2
import psutil
import pytest

from localai.clock import boottime
from tests.acceptance.cluster import Cluster, Frontend, Started, frozen, processes_below, wait_for
from tests.acceptance.test_loading_stream import Heard, listen
from tests.acceptance.test_metrics import agent_metrics

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

#: Lease and sweep of the scaled windows, and what a shared machine adds.
LEASE_S, TICK_S, SLACK_S = 4.0, 0.25, 8.0
WEIGHTS = b"weights" * 100_000


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def _loading(frontend: Frontend, model: str) -> dict[str, Any]:
    """The job of a load whose ``LoadModel`` is under way."""

    def found() -> dict[str, Any] | None:
        rows = frontend.jobs(kind="model.load", subject=model, state="running")
        return rows[0] if rows and rows[0]["phase"] == "loading" else None

    return wait_for(f"the load of {model} on a node", found)


def _history(frontend: Frontend, job_id: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    body = frontend.get(f"/api/jobs/{job_id}").json()
    return body, list(body["events"])


def _model_processes(pid: int) -> list[int]:
    found = []
    for process in processes_below(pid):
        try:
            line = process.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if "--addr" in line and any(word.endswith("backend.py") for word in line):
            found.append(process.pid)
    return found


def test_lj_06_a_killed_owner_s_load_goes_on_and_its_waiters_are_answered(
    cluster: Cluster, pool: ThreadPoolExecutor
) -> None:
    up = cluster.up()
    up.wait_for_nodes(1)
    cluster.models.mkdir(parents=True, exist_ok=True)
    (cluster.models / "weights.bin").write_bytes(WEIGHTS)
    cluster.model("slow", "fault", "load_delay:7s", parameters={"model": "weights.bin"})
    up.wait_for_model("slow")
    waiting: Future[httpx2.Response] = pool.submit(up.chat, "slow")
    told: Future[Heard] = pool.submit(listen, up, "slow")
    job = _loading(up, "slow")
    processes = wait_for("its process", lambda: _model_processes(up.process.pid))
    up.process.child("tasks.control").kill()
    answer = waiting.result(60)
    assert (answer.status_code, "slow" in answer.text) == (200, True), answer.text
    heard = told.result(60)
    assert {status["job_id"] for status in heard.loading} == {job["id"]}
    assert "slow" in heard.text and heard.data[-1] == "[DONE]"
    row, events = _history(up, job["id"])
    assert (row["state"], row["adoptions"], row["attempts"]) == ("succeeded", 1, 1)
    assert row["generation"] > job["generation"] and row["op_generation"] == job["op_generation"]
    assert [event["event"] for event in events].count("succeeded") == 1
    assert [event["event"] for event in events].count("claimed") == 1
    assert len(up.jobs(kind="model.load", subject="slow")) == 1
    assert _model_processes(up.process.pid) == processes and len(processes) == 1
    staged = agent_metrics(up)
    assert sum(value for name, value in staged.items() if "staging_bytes" in str(name)) == len(WEIGHTS)


@pytest.mark.long
def test_with_adoption_off_a_killed_owner_s_load_fails_and_holds_and_then_loads_again(
    cluster: Cluster, pool: ThreadPoolExecutor
) -> None:
    up = cluster.up(LOCALAI_JOB_ADOPTION="false")
    up.wait_for_nodes(1)
    cluster.model("slow", "fault", "load_delay:5s")
    up.wait_for_model("slow")
    waiting: Future[httpx2.Response] = pool.submit(up.chat, "slow")
    job = _loading(up, "slow")
    control = up.process.child("tasks.control")
    killed_at = boottime()
    control.kill()
    refused = waiting.result(60)
    assert boottime() - killed_at <= LEASE_S + TICK_S + SLACK_S
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_load_failed"), refused.text
    row, events = _history(up, job["id"])
    assert (row["state"], row["error_cause"], row["adoptions"]) == ("failed", "owner_lost", 0)
    assert "adopted" not in {event["event"] for event in events}
    assert up.chat("slow").status_code == 503, "it is held"
    assert "slow" in up.chat_until_answered("slow").text
    states = [row["state"] for row in up.jobs(kind="model.load", subject="slow")]
    assert states == ["succeeded", "failed"]
    assert len(_model_processes(up.process.pid)) == 1


def test_c13_an_owner_that_stood_still_past_its_lease_changes_nothing_of_the_load_that_another_one_adopted(
    cluster: Cluster, pool: ThreadPoolExecutor
) -> None:
    frontends, worker = _two_frontends(cluster, "load_delay:9s")
    waiting: Future[httpx2.Response] = pool.submit(frontends[0].chat, "slow")
    job = _loading(frontends[0], "slow")
    owning = next(one for one in frontends if job["owner"] in _control_log(one))
    with frozen(owning.process.child("tasks.control")):
        adopted = wait_for("the adoption", lambda: _adopted(frontends[0], job["id"]), 30)
        assert adopted["owner"] != job["owner"]
    answer = waiting.result(60)
    assert answer.status_code == 200, answer.text
    row, events = _history(frontends[0], job["id"])
    assert row["state"] == "succeeded"
    names = [event["event"] for event in events]
    since = events[names.index("adopted") :]
    assert all(event["generation"] >= adopted["generation"] for event in since), "nobody wrote under the old one"
    by = {event["actor"] for event in since if event["generation"] == adopted["generation"]}
    assert job["owner"] not in by
    assert names.count("succeeded") == names.count("claimed") == 1
    assert len(_model_processes(worker.pid)) == 1
    assert owning.chat("slow").status_code == 200


@pytest.mark.long
def test_an_owner_that_is_stopped_in_good_order_hands_its_load_over_at_once(
    cluster: Cluster, pool: ThreadPoolExecutor
) -> None:
    cluster.variables["LOCALAI_JOB_LEASE_TTL"] = "8s"
    frontends, worker = _two_frontends(cluster, "load_delay:6s")
    assert frontends[0].post("/backend/load", {"model": "slow"}).status_code == 202
    job = _loading(frontends[0], "slow")
    stays, leaves = sorted(frontends, key=lambda one: job["owner"] in _control_log(one))
    waiting: Future[httpx2.Response] = pool.submit(stays.chat, "slow")
    assert leaves.process.stop() == 0
    answer = waiting.result(60)
    assert answer.status_code == 200, answer.text
    row, events = _history(stays, job["id"])
    assert (row["state"], row["attempts"], row["adoptions"]) == ("succeeded", 1, 0), "nobody was lost"
    at = {event["event"]: datetime.fromisoformat(event["at"]) for event in reversed(events)}
    assert (at["adopted"] - at["released"]).total_seconds() <= 5.0, "long before the lease is over"
    assert len(_model_processes(worker.pid)) == 1


def _two_frontends(cluster: Cluster, option: str) -> tuple[list[Frontend], Started]:
    """Two frontends, a worker that knows both, and a model that loads slowly."""
    cluster.servers()
    frontends = [cluster.frontend("first"), cluster.frontend("second")]
    worker = cluster.worker("worker", *frontends)
    frontends[0].wait_for_nodes(1)
    cluster.model("slow", "fault", option)
    for frontend in frontends:
        frontend.wait_for_model("slow")
    return frontends, worker


def _control_log(frontend: Frontend) -> str:
    return "".join(path.read_text(errors="replace") for path in frontend.logs.glob("control*.log"))


def _adopted(frontend: Frontend, job_id: str) -> dict[str, Any] | None:
    row: dict[str, Any] = frontend.get(f"/api/jobs/{job_id}").json()
    assert row["state"] == "running", row
    return row if row["adoptions"] else None
