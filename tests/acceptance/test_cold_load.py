"""Many first requests for one cold model over two frontends and two workers: one load, and nobody is left out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import openai
import pytest

from tests.acceptance.cluster import API_KEY, Cluster, Frontend, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def frontends(shared_cluster: Cluster) -> Iterator[tuple[Frontend, Frontend]]:
    """Two frontends on shared servers: the first waits long, the second a second only; two workers know both."""
    shared_cluster.servers()
    patient = shared_cluster.frontend("patient")
    hasty = shared_cluster.frontend("hasty", LOCALAI_MODEL_LOAD_WAIT="1s")
    shared_cluster.worker("worker-1", patient, hasty)
    shared_cluster.worker("worker-2", hasty, patient)
    patient.wait_for_nodes(2)
    yield patient, hasty


def test_fifty_first_requests_over_two_frontends_give_one_load(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    patient, hasty = frontends
    shared_cluster.model("crowd", "fault", "load_delay:4s")
    for frontend in frontends:
        frontend.wait_for_model("crowd")

    with ThreadPoolExecutor(50) as pool:
        responses = list(pool.map(lambda number: frontends[number % 2].chat("crowd", f"request {number}"), range(50)))

    for number, response in enumerate(responses):
        if number % 2 == 0:
            assert response.status_code == 200, response.text
            assert "crowd" in response.json()["choices"][0]["message"]["content"]
            continue
        assert response.status_code in (200, 503), response.text
        if response.status_code == 503:
            body = response.json()
            assert (body["error"]["type"], body["error"]["code"]) == ("model_loading", "model_loading")
            assert body["loading"]["model"] == "crowd"
            assert 5 <= int(response.headers["Retry-After"]) <= 300
    assert any(response.status_code == 503 for response in responses), "the hasty frontend waited"

    assert len(patient.jobs(kind="model.load", subject="crowd")) == 1
    for frontend in frontends:
        warm = frontend.chat_until_answered("crowd")
        assert frontend.statements_of(frontend.chat("crowd")) == 0, warm.text
    assert len(hasty.jobs(kind="model.load", subject="crowd")) == 1


def test_lj_02_the_client_may_leave_and_the_load_goes_on(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    patient, hasty = frontends
    shared_cluster.model("left-alone", "fault", "load_delay:5s")
    for frontend in frontends:
        frontend.wait_for_model("left-alone")
    with pytest.raises(httpx2.TimeoutException):
        patient.post(
            "/v1/chat/completions",
            {"model": "left-alone", "messages": [{"role": "user", "content": "hello"}]},
            timeout=1.0,
        )
    status = wait_for("a load status", lambda: _status(hasty, "left-alone"))
    assert status["state"] in ("pending", "installing", "staging", "loading")
    seen = patient.get("/api/models/left-alone/load-status").json()
    assert seen["job_id"] == status["job_id"]
    assert 0 < seen["lease_expires_in"] <= 5
    answer = patient.chat_until_answered("left-alone")
    assert answer.status_code == 200
    (job,) = patient.jobs(kind="model.load", subject="left-alone")
    assert job["id"] == status["job_id"] and job["attempts"] == 1
    assert patient.get("/api/models/left-alone/load-status").status_code == 404


def _status(frontend: Frontend, model: str) -> dict[str, object] | None:
    response = frontend.get(f"/api/models/{model}/load-status")
    return response.json() if response.status_code == 200 else None


def test_lj_12_the_openai_client_s_own_retries_reach_the_model(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    _, hasty = frontends
    shared_cluster.model("retried", "fault", "load_delay:4s")
    hasty.wait_for_model("retried")
    with openai.OpenAI(base_url=hasty.url + "/v1", api_key=API_KEY, timeout=120) as api:
        answer = api.chat.completions.create(model="retried", messages=[{"role": "user", "content": "hello"}])
    assert "retried" in (answer.choices[0].message.content or "")
    (job,) = hasty.jobs(kind="model.load", subject="retried")
    assert job["attempts"] == 1


def test_lj_08_a_backend_that_exits_fails_the_load_once_with_its_last_words(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    patient, _ = frontends
    shared_cluster.model("dies", "fault", "start_exit:3", "stderr:the disk of this backend is on fire")
    patient.wait_for_model("dies")
    response = patient.chat("dies")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "model_load_failed"
    status = patient.get("/api/models/dies/load-status").json()
    assert status["state"] == "failed"
    assert "the disk of this backend is on fire" in status["last_error"]
    (job,) = patient.jobs(kind="model.load", subject="dies")
    assert (job["state"], job["error_cause"]) == ("failed", "start_failed")


def test_a_model_without_a_node_that_can_hold_it_says_why(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    patient, _ = frontends
    shared_cluster.model("nobody-builds-this", "no-such-backend")
    patient.wait_for_model("nobody-builds-this")
    response = patient.chat("nobody-builds-this")
    assert response.status_code == 503
    assert "no-such-backend" in response.json()["error"]["message"]


def test_both_nodes_are_used(shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]) -> None:
    patient, _ = frontends
    nodes = [node["id"] for node in patient.nodes() if node["status"] == "healthy"]
    for name in (f"spread-{number}" for number in range(len(nodes))):
        shared_cluster.model(name, "fault")
        patient.wait_for_model(name)
        assert patient.chat_until_answered(name).status_code == 200
    holding = {node: patient.get(f"/api/nodes/{node}/models").json() for node in nodes}
    assert all(holding.values()), holding


def test_requests_under_way_are_seen_on_their_node_and_gone_after(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    patient, hasty = frontends
    shared_cluster.model("in-flight", "fault", "tokens:150", "token_delay:100ms")
    for frontend in frontends:
        frontend.wait_for_model("in-flight")
        assert frontend.chat_until_answered("in-flight", max_tokens=1).status_code == 200
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(frontend.chat, "in-flight") for frontend in frontends]
        wait_for("both requests counted", lambda: _in_flight(patient) == 2)
        assert all(answer.result().status_code == 200 for answer in asked)
    wait_for("no request counted", lambda: _in_flight(hasty) == 0)


def _in_flight(frontend: Frontend) -> int:
    on_nodes = sum(node["in_flight_count"] for node in frontend.nodes())
    on_replicas = sum(
        replica["in_flight"]
        for node in frontend.nodes()
        for replica in frontend.get(f"/api/nodes/{node['id']}/models").json()
    )
    return on_nodes if on_nodes == on_replicas else -1


def test_sc_05_term_leaves_no_child(shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]) -> None:
    from tests.acceptance.cluster import alive, processes_below

    patient, _ = frontends
    shared_cluster.model("to-be-orphaned", "fault", "fork_child:true")
    third = shared_cluster.worker("worker-3", patient)
    patient.wait_for_nodes(3)
    patient.wait_for_model("to-be-orphaned")
    assert patient.chat_until_answered("to-be-orphaned").status_code == 200
    everything = processes_below(third.pid)
    assert third.stop() == 0, third.text()[-3000:]
    wait_for("no process of the worker left", lambda: not any(alive(process) for process in everything), 10)
    wait_for("the node offline", lambda: sum(n["status"] == "healthy" for n in patient.nodes()) == 2)
