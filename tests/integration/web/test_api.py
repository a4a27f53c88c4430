"""The agent's and the administrator's routes on real rows."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx2
import pytest

from localai.db.unit_of_work import units_of
from localai.sessions.store import PgEndedSessions
from tests import plain_http
from tests.fakes.inference import says
from tests.integration.web.bench import KEY, Bench, Node, WebProcess
from tests.loopback import LIMIT_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_a_node_registers_beats_and_is_listed(bench: Bench, web: WebProcess, node: Node) -> None:
    (listed,) = [found for found in web.client.get("/api/nodes").json() if found["id"] == node.id]
    assert (listed["name"], listed["status"], listed["total_ram"]) == ("node-1", "healthy", 2**34)
    assert "credential" not in json.dumps(listed)
    assert web.client.get(f"/api/nodes/{node.id}").json()["id"] == node.id
    beat = node.post("heartbeat", {"incarnation": node.incarnation, "available_ram": 5})
    assert beat.json() == {"message": "heartbeat received", "status": "healthy"}


def test_a_replaced_life_of_an_agent_is_409_everywhere(bench: Bench, web: WebProcess) -> None:
    first = bench.node(web, "twice")
    second = bench.node(web, "twice")
    assert (second.id, second.incarnation) == (first.id, first.incarnation + 1)
    body = {"incarnation": first.incarnation}
    assert first.post("heartbeat", body).status_code in (401, 409)
    assert second.post("heartbeat", body).status_code == 409
    assert second.post("report", {**body, "seq": 1}).status_code == 409


def test_a_pending_node_is_let_in_by_an_administrator(bench: Bench) -> None:
    cautious = bench.web(auto_approve_nodes=False)
    node = bench.node(cautious, "waits")
    shown = f"/api/nodes/{node.id}"
    assert cautious.client.get(shown).json()["status"] == "pending"
    for _ in range(2):
        answer = cautious.client.post(f"{shown}/approve")
        assert answer.status_code == 200 and answer.json()["message"] == "node approved"
    assert cautious.client.get(shown).json()["status"] == "healthy"
    assert cautious.client.post("/api/nodes/00000000-0000-4000-8000-000000000000/approve").status_code == 404


def test_an_unknown_claim_is_refused_and_an_unknown_node_not_found(bench: Bench, web: WebProcess, node: Node) -> None:
    refused = node.claim("00000000-0000-4000-8000-000000000000", 1)
    assert refused.status_code == 409 and refused.json()["state"]
    unknown = plain_http.post(
        f"{web.url}/api/node/00000000-0000-4000-8000-000000000000/report", json={}, headers=node.headers
    )
    assert unknown.status_code == 404


def test_a_load_is_a_job_that_can_be_followed(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("followed/model:v1")
    wait = bench.in_background(lambda: web.chat("followed/model:v1"))
    job_id = bench.place("followed/model:v1")
    status = web.client.get("/api/models/followed%2Fmodel:v1/load-status").json()
    chosen = bench.node_of(job_id)
    assert (status["job_id"], status["node"]) == (job_id, chosen.name)
    told: list[str] = []
    with web.client.stream("GET", f"/api/jobs/{job_id}/events") as stream:
        lines = stream.iter_lines()
        told.extend(_until(lines, "event: job"))
        bench.finish(job_id, bench.backend(says("done")))
        told.extend(_until(lines, "event: end"))
    assert wait.result(LIMIT_S).status_code == 200
    assert any('"event": "succeeded"' in line for line in told)
    shown = web.client.get(f"/api/jobs/{job_id}").json()
    names = [event["event"] for event in shown["events"]]
    assert names.count("succeeded") == 1 and names[-1] == "succeeded"
    (listed,) = web.client.get("/api/jobs?kind=model.load&subject=followed/model:v1").json()["jobs"]
    assert listed["id"] == job_id and listed["state"] == "succeeded"
    (replica,) = [r for r in web.client.get(f"/api/nodes/{chosen.id}/models").json() if r["job_id"] == job_id]
    assert (replica["model_name"], replica["state"]) == ("followed/model:v1", "loaded")
    models = {model["name"]: model for model in web.client.get("/api/models").json()["models"]}
    assert models["followed/model:v1"]["state"] == "loaded"


@pytest.mark.parametrize("node_id", ["no-id", "00000000-0000-4000-8000-000000000000"])
def test_the_models_of_a_node_that_is_none_are_not_found(web: WebProcess, node_id: str) -> None:
    assert web.client.get(f"/api/nodes/{node_id}/models").status_code == 404


def _until(lines: Any, wanted: str) -> list[str]:
    found = []
    for line in lines:
        found.append(line)
        if line == wanted:
            return found
    raise AssertionError(f"{wanted} never came: {found}")


def test_pages_of_jobs_are_continued_by_the_last_id(bench: Bench, web: WebProcess, node: Node) -> None:
    for number in range(3):
        bench.model(f"page-{number}")
        connection = web.open_chat(f"page-{number}")
        eventually(lambda number=number: bench.live(f"page-{number}") is not None, "a job")  # type: ignore[misc]
        connection.close()
    first = web.client.get("/api/jobs?limit=2").json()
    second = web.client.get(f"/api/jobs?limit=2&before={first['next']}").json()
    ids = [job["id"] for job in (*first["jobs"], *second["jobs"])]
    assert len(ids) == len(set(ids)) == 4 or len(second["jobs"]) < 2


def test_lj_01_a_request_that_waited_too_long_is_503_with_its_attempt(bench: Bench, node: Node) -> None:
    hasty = bench.web(model_load_wait_s=0.5)
    bench.model("slow")
    responses = [bench.in_background(lambda: hasty.chat("slow")) for _ in range(6)]
    for response in responses:
        answer = response.result(LIMIT_S)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "model_loading"
        assert 5 <= int(answer.headers["Retry-After"]) <= 300
    assert len(hasty.client.get("/api/jobs?subject=slow").json()["jobs"]) == 1


def test_a_file_of_a_gigabyte_leaves_the_other_requests_alone(bench: Bench, web: WebProcess, node: Node) -> None:
    path = bench.models / "large.bin"
    piece = bytes(range(256)) * 4096
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(256):
            file.write(piece)
            digest.update(piece)
    bench.model("large-file")
    assert web.client.post("/backend/load", json={"model": "large-file"}).status_code == 202
    job_id = bench.place("large-file")
    _stage(bench, job_id, {"path": path.name, "size": path.stat().st_size, "sha256": "0" * 64})
    chosen = bench.node_of(job_id)
    received = hashlib.sha256()
    slowest = 0.0
    url = f"{web.url}/api/node/{chosen.id}/files/large.bin"
    with plain_http.stream("GET", url, headers=chosen.headers, timeout=LIMIT_S) as response:
        assert response.headers["Content-Length"] == str(path.stat().st_size)
        for number, chunk in enumerate(response.iter_raw(1024 * 1024)):
            received.update(chunk)
            if number % 32 == 0:
                slowest = max(slowest, web.client.get("/healthz").elapsed.total_seconds())
    assert received.hexdigest() == digest.hexdigest()
    assert slowest < 5, "a download holds up everybody"
    path.unlink()


def _stage(bench: Bench, job_id: str, file: dict[str, object]) -> None:
    """Add a file to the order of a placed load: a node reads only what its own operations stage."""
    with bench.engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE jobs SET args = jsonb_set(args, '{order,files}', %(files)s::jsonb) WHERE id = %(id)s",
            {"files": json.dumps([file]), "id": job_id},
        )


def test_an_edited_config_takes_its_old_replicas_out(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("edited")
    wait = bench.in_background(lambda: web.chat("edited"))
    old = bench.backend(says("old"))
    bench.load("edited", old)
    assert wait.result(LIMIT_S).status_code == 200
    bench.model("edited", description="another revision")
    # The row, because the table of a web process that stood still is empty for a moment, too.
    eventually(lambda: _rows(bench, "edited") == ["unloading"], "the edit in force")
    eventually(lambda: _state(web, "edited") == "unloaded", "the old one out")
    wait = bench.in_background(lambda: web.chat("edited"))
    eventually(lambda: bench.live("edited") is not None, "a load of the new revision")
    bench.process_ended(old)
    bench.load("edited", bench.backend(says("new")))
    assert wait.result(LIMIT_S).json()["choices"][0]["message"]["content"] == "new"


def _rows(bench: Bench, model: str) -> list[str]:
    return [replica.state for replica in bench.rows.replicas.list() if replica.model == model]


def _state(web: WebProcess, name: str) -> str:
    (model,) = [model for model in web.client.get("/api/models").json()["models"] if model["name"] == name]
    return str(model["state"])


def test_a_keep_alive_connection_carries_many_requests(bench: Bench, web: WebProcess) -> None:
    with httpx2.Client(base_url=web.url, headers={"x-api-key": KEY}) as client:
        statuses = {client.get("/v1/models").status_code for _ in range(50)}
        refused = client.post("/v1/chat/completions", json={"model": "nobody", "messages": []})
    assert statuses == {200} and refused.status_code == 400


def test_a_session_that_was_ended_is_refused_by_every_frontend(bench: Bench, web: WebProcess) -> None:
    """The test is another frontend: it works on the same rows."""
    rows = PgEndedSessions(units_of(bench.engine))
    with httpx2.Client(base_url=web.url, timeout=LIMIT_S) as browser:

        def sign_in() -> tuple[dict[str, str], dict[str, str]]:
            answer = browser.post("/api/auth/token-login", json={"token": KEY})
            browser.cookies.clear()
            return {"Cookie": answer.headers["Set-Cookie"].split(";")[0]}, {"X-CSRF-Token": answer.json()["csrf_token"]}

        def reads(cookie: dict[str, str]) -> int:
            return int(browser.get("/v1/models", headers=cookie).status_code)

        def digest(cookie: dict[str, str]) -> str:
            return hashlib.sha256(cookie["Cookie"].partition("=")[2].encode()).hexdigest()

        here, token = sign_in()
        elsewhere, _ = sign_in()
        assert (reads(here), reads(elsewhere)) == (200, 200)
        assert browser.post("/api/auth/logout", headers={**here, **token}).status_code == 200
        assert (reads(here), reads(elsewhere)) == (401, 200)
        assert rows.is_ended(digest(here)) and not rows.is_ended(digest(elsewhere))
        rows.end(digest(elsewhere), 60.0)
        rows.end(digest(elsewhere), 60.0)
        eventually(lambda: reads(elsewhere) == 401, "the end of a session on another frontend")
        rows.end("over", -1.0)
        rows.end("other", 60.0)
        assert not rows.is_ended("over") and rows.is_ended("other")
