"""Bad input: each is refused with the field, the value and what would be accepted, and nothing is loaded."""

from __future__ import annotations

from typing import Any

import pytest

from tests import plain_http
from tests.acceptance.cluster import API_KEY, Cluster, Frontend
from tests.slow_clients import A_BYTE, STRANGER, held, is_closed, open_files

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module", autouse=True)
def fault_model(machine: Cluster, up: Frontend) -> None:
    machine.model("m", "fault")
    up.wait_for_model("m")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": MESSAGES}, "model"),
        ({"model": 7, "messages": MESSAGES}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": []}, "messages"),
        ({"model": "m", "messages": "hello"}, "messages"),
        ({"model": "m", "messages": [{"content": "hello"}]}, "messages"),
        ({"model": "m", "messages": MESSAGES, "temperature": "hot"}, "temperature"),
        ({"model": "m", "messages": MESSAGES, "max_tokens": -1}, "max_tokens"),
        ({"model": "m", "messages": MESSAGES, "stream": "yes"}, "stream"),
        ({"model": "m", "messages": MESSAGES, "stop": 3}, "stop"),
        ([1, 2], "body"),
    ],
)
def test_a_wrong_field_is_a_400_that_names_it(up: Frontend, body: Any, field: str) -> None:
    response = up.post("/v1/chat/completions", body)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert field in error["message"] and field in (error.get("param") or "")


def test_malformed_json_is_a_400(up: Frontend) -> None:
    response = plain_http.post(
        up.url + "/v1/chat/completions",
        content=b'{"model": "m", ',
        headers={"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"},
    )
    assert response.status_code == 400
    assert "JSON" in response.json()["error"]["message"]


def test_an_unknown_model_is_a_404_and_never_a_load(up: Frontend) -> None:
    response = up.chat("no/such:model")
    assert response.status_code == 404
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "model_not_found")
    assert up.jobs(subject="no/such:model") == []


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"x-api-key": "wrong"}])
@pytest.mark.parametrize("path", ["/v1/models", "/api/jobs", "/api/nodes", "/api/models"])
def test_a_wrong_key_is_a_401(up: Frontend, headers: dict[str, str], path: str) -> None:
    response = plain_http.get(up.url + path, headers=headers)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_body_over_the_limit_is_a_413(up: Frontend) -> None:
    response = up.chat("m", "x" * 1_500_000)
    assert response.status_code == 413
    assert "LOCALAI_UPLOAD_LIMIT" in response.json()["error"]["message"]


def test_an_unknown_route_and_an_unknown_job_are_404(up: Frontend) -> None:
    for path in ("/v1/no-such-route", "/api/jobs/not-a-uuid", "/api/jobs/00000000-0000-4000-8000-000000000000"):
        response = up.get(path)
        assert response.status_code == 404, path
        assert response.json()["error"]


@pytest.mark.parametrize("query", ["state=sleeping", "limit=many", "limit=0", "node=nobody"])
def test_a_wrong_filter_of_the_job_list_is_named(up: Frontend, query: str) -> None:
    response = up.get("/api/jobs?" + query)
    assert response.status_code == 400
    assert query.split("=", maxsplit=1)[0] in response.json()["error"]["message"]


def test_a_digest_that_does_not_match_fails_the_load_visibly(machine: Cluster, up: Frontend) -> None:
    (machine.models / "weights.bin").write_bytes(b"not what was promised")
    machine.model(
        "tampered",
        "fault",
        parameters={"model": "weights.bin"},
        download_files=[{"filename": "weights.bin", "uri": f"file://{machine.models}/weights.bin", "sha256": "0" * 64}],
    )
    up.wait_for_model("tampered")
    response = up.chat("tampered")
    assert response.status_code == 503, response.text
    assert "was promised" in response.json()["error"]["message"]
    (job,) = up.jobs(kind="model.load", subject="tampered")
    assert job["error_cause"] == "digest_mismatch"
    assert (machine.models / "weights.bin").exists(), "a person's file was deleted"


def test_a_config_that_cannot_be_used_does_not_hide_the_others(machine: Cluster, up: Frontend) -> None:
    (machine.models / "broken.yaml").write_text("name: [unclosed")
    (machine.models / "wrong.yaml").write_text("name: wrong\nbackend: 'no spaces allowed'\n")
    machine.model("good-neighbour", "fault")
    up.wait_for_model("good-neighbour")
    assert up.chat_until_answered("good-neighbour").status_code == 200
    (machine.models / "broken.yaml").unlink()
    (machine.models / "wrong.yaml").unlink()


@pytest.mark.parametrize("address", ["127.0.0.1", STRANGER], ids=["of a proxy", "of a stranger"])
@pytest.mark.long
def test_a_client_is_served_beside_4050_slow_connections_of_one_address(up: Frontend, address: str) -> None:
    with open_files(8000), held(int(up.url.rpartition(":")[2]), 4050, A_BYTE, address) as opened:
        for _ in range(20):
            assert up.get("/v1/models").status_code == 200
        assert sum(is_closed(connection) for connection in opened[:1000]) == 1000
