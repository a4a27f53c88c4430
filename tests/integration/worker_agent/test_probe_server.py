"""The worker's HTTP server bounds the bytes, the seconds and the connections of its clients."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.integration.worker_agent.fake_frontend import LIMIT_S
from tests.loopback import eventually, free_port
from worker_agent.http_limits import BODY_BYTES, IDLE_MOST
from worker_agent.log_routes import LogRoutes
from worker_agent.probes import Answers, ProbeServer

pytestmark = pytest.mark.integration

TOKEN = "registration-token"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """The port of a server whose requests may take a second."""
    number = free_port()
    server = ProbeServer(
        "127.0.0.1", number, Answers(lambda: None, LogRoutes(tmp_path, TOKEN), registration_token=TOKEN), request_s=1
    )
    server.start()
    try:
        yield number
    finally:
        server.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)


def logs(port: int) -> tuple[int, object]:
    """The answer to a frontend that asks for the logs of this node."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)) as connection:
        connection.request("GET", "/v1/backend-logs", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.parametrize("framing", [f"Content-Length: {BODY_BYTES + 1}", "Transfer-Encoding: chunked"])
def test_a_large_body_is_refused_and_not_stored(port: int, framing: str) -> None:
    with connected(port) as client:
        client.sendall(f"POST /healthz HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode())
        sent, answer = 0, b""
        with suppress(ConnectionError):
            while sent < 4 * BODY_BYTES and "chunked" in framing:
                client.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
                sent += 1024
        with suppress(ConnectionError):
            answer = client.recv(4096)
        assert answer.startswith(b"HTTP/1.1 413") or sent, answer
        assert answer.startswith(b"HTTP/1.1 413") or not answer
    assert logs(port) == (200, [])


def test_a_request_that_comes_byte_by_byte_is_ended(port: int) -> None:
    with connected(port) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        client.settimeout(0.2)

        def ended() -> bool:
            try:
                client.sendall(b"x")
                return client.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        eventually(ended, "the connection closed though bytes kept coming")


def test_idle_connections_keep_no_frontend_out(tmp_path: Path) -> None:
    number = free_port()
    server = ProbeServer("127.0.0.1", number, Answers(lambda: None, LogRoutes(tmp_path, TOKEN)), request_s=600)
    server.start()
    try:
        with ExitStack() as stack:
            clients = [stack.enter_context(connected(number)) for _ in range(5 * IDLE_MOST)]
            assert logs(number) == (200, [])
            assert clients[0].recv(1) == b"", "the oldest was displaced"
    finally:
        server.close()
