"""A close of a client is noticed whatever it sent before, and nothing waits for a call without a client."""

from __future__ import annotations

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from tests.acceptance.cluster import API_KEY, LIMIT_S, Cluster, Frontend, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

CLIENTS = 20


def open_chat(up: Frontend, model: str, *, stream: bool = False) -> socket.socket:
    """Send a chat request and leave the connection to the test."""
    messages = [{"role": "user", "content": "hello"}]
    content = json.dumps({"model": model, "messages": messages, "stream": stream}).encode()
    host, port = urlsplit(up.url).hostname, urlsplit(up.url).port
    connection = socket.create_connection((host, port), timeout=LIMIT_S)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {API_KEY}\r\n"
    connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n".encode())
    connection.sendall(content)
    return connection


def ended_early(up: Frontend) -> int:
    """Calls that the model process saw end before their answer, from its log."""
    return sum(log.read_text(errors="replace").count("a call ended early") for log in up.logs.parent.rglob("*.log"))


def answer_of(connection: socket.socket) -> tuple[int, str]:
    with connection, http.client.HTTPResponse(connection) as response:
        response.begin()
        return response.status, response.read().decode()


def test_20_closes_after_early_bytes_cancel_20_calls_and_an_unload_waits_for_none(
    machine: Cluster, up: Frontend
) -> None:
    model = machine.model("never-answers", "fault", "hang_in_predict:true")
    up.wait_for_model(model)
    assert up.post("/backend/load", {"model": model}).status_code in (200, 202)
    wait_for("the model is loaded", lambda: _loaded(up, model))
    ended_before = ended_early(up)
    early = (b"\r\n", b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    connections = [open_chat(up, model, stream=number % 4 > 1) for number in range(CLIENTS)]
    wait_for("every call has begun", lambda: _in_flight(up) == CLIENTS)
    for number, connection in enumerate(connections):
        connection.sendall(early[number % 2])
    for connection in connections:
        connection.close()
    wait_for("every call is cancelled", lambda: ended_early(up) - ended_before == CLIENTS, 10)
    assert up.post("/backend/shutdown", {"model": model}).status_code in (200, 202)
    wait_for("the model is unloaded", lambda: not _loaded(up, model), 30)


@pytest.mark.long
def test_clients_that_ended_their_input_read_whole_answers_of_a_model_that_loads(cluster: Cluster) -> None:
    up = cluster.up()
    up.wait_for_nodes(1)
    cluster.model("slow", "fault", "load_delay:2s", "first_token_delay:3s", "token_delay:500ms", "tokens:4")
    up.wait_for_model("slow")
    connections = [open_chat(up, "slow", stream=stream) for stream in (False, True)]
    for connection in connections:
        connection.shutdown(socket.SHUT_WR)
    (whole_status, whole), (stream_status, streamed) = map(answer_of, connections)
    assert (whole_status, stream_status) == (200, 200), whole
    assert json.loads(whole)["choices"][0]["message"]["content"] == "slow says: tok1 tok2 tok3 tok4"
    *chunks, done = [line.removeprefix("data: ") for line in streamed.split("\n") if line.startswith("data: ")]
    choices = [json.loads(chunk)["choices"][0] for chunk in chunks]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == "slow says: tok1 tok2 tok3 tok4"
    assert choices[-1]["finish_reason"] and done == "[DONE]"
    assert ended_early(up) == 0


def _in_flight(up: Frontend) -> int:
    return sum(int(node["in_flight_count"]) for node in up.nodes())


def _loaded(up: Frontend, model: str) -> bool:
    return any(one["name"] == model and one["state"] == "loaded" for one in up.get("/api/models").json()["models"])
