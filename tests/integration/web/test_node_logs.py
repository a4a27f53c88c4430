"""Logs of model processes, read through a real web process from the real HTTP server of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localai.ids import new_id
from tests import plain_http
from tests.integration.web.bench import TOKEN, Bench, WebProcess
from tests.loopback import free_port
from worker_agent.log_routes import LogRoutes
from worker_agent.probes import Answers, ProbeServer
from worker_agent.processes.logs import open_output

pytestmark = pytest.mark.integration


def _register(web: WebProcess, http_address: str) -> str:
    body = {"name": f"logs-{new_id()}", "address": "127.0.0.1:50051", "http_address": http_address, "token": TOKEN}
    response = plain_http.post(f"{web.url}/api/node/register", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


@pytest.fixture
def node_id(web: WebProcess, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    server = ProbeServer("127.0.0.1", port, Answers(lambda: None, LogRoutes(tmp_path, TOKEN)))
    server.start()
    yield _register(web, f"127.0.0.1:{port}")
    server.close()


def test_the_log_of_a_model_is_read_through_any_frontend(
    bench: Bench, web: WebProcess, node_id: str, tmp_path: Path
) -> None:
    open_output(tmp_path, "org/m é#0").err.write_text("one\ntwo\nthree\n")
    assert web.client.get(f"/api/nodes/{node_id}/backend-logs").json() == ["org/m é"]
    for path in ("org/m é", "org%2Fm%20%C3%A9"):
        answer = web.client.get(f"/api/nodes/{node_id}/backend-logs/{path}?lines=2")
        assert answer.status_code == 200, answer.text
        assert answer.json()["logs"] == [{"slot": 0, "stream": "stderr", "lines": ["two", "three"]}]
    more = web.client.get(f"/api/nodes/{node_id}/backend-logs/org/m é", params={"after": answer.json()["cursor"]})
    assert (more.status_code, more.json()["logs"]) == (200, [])


def test_what_is_not_there_is_404_and_a_worker_that_does_not_answer_is_502(web: WebProcess, node_id: str) -> None:
    nowhere = _register(web, f"127.0.0.1:{free_port()}")
    cases = {
        f"/api/nodes/{new_id()}/backend-logs": 404,
        "/api/nodes/not-an-id/backend-logs": 404,
        f"/api/nodes/{node_id}/backend-logs/nobody": 404,
        f"/api/nodes/{node_id}/backend-logs/../../healthz": 404,
        f"/api/nodes/{node_id}/backend-logs/nobody?lines=x": 400,
        f"/api/nodes/{nowhere}/backend-logs": 502,
        f"/api/nodes/{nowhere}/backend-logs/m": 502,
    }
    for path, status in cases.items():
        answer = web.client.get(path)
        assert answer.status_code == status, (path, answer.text)
        assert answer.json()["error"]["message"]
    assert plain_http.get(f"{web.url}/api/nodes/{node_id}/backend-logs").status_code == 401


@pytest.mark.parametrize("host", ["gpu..lan", "a" * 70 + ".lan", "gpu 1"])
def test_an_address_that_cannot_be_one_is_a_worker_that_does_not_answer(web: WebProcess, host: str) -> None:
    answer = web.client.get(f"/api/nodes/{_register(web, f'{host}:50050')}/backend-logs")
    assert answer.status_code == 502, answer.text
    assert host in answer.json()["error"]["message"]
