"""Files over real sockets: whole, cut off, silent and refused, as httpx2 would say it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import pytest

from tests.loopback import LIMIT_S, free_port
from worker_agent.files.receiving import FileTransport

pytestmark = pytest.mark.integration

BODY = os.urandom(3 * 1024 * 1024 + 17)


@contextmanager
def server(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """A server that hands one connection and its request to ``answer``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked = b""
                while not asked.endswith(b"\r\n\r\n"):
                    asked += connection.recv(65536)
                answer(connection, asked)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(LIMIT_S)


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(transport=FileTransport(), trust_env=False, timeout=httpx2.Timeout(5.0)) as client:
        yield client


def head(status: str, length: int) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {length}\r\nContent-Type: application/x\r\n\r\n".encode()


def test_a_file_comes_whole_and_the_question_is_the_caller_s(client: httpx2.Client) -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket, asked: bytes) -> None:
        seen.append(asked)
        connection.sendall(head("206 Partial Content", len(BODY)) + BODY)

    with server(answer) as url, client.stream("GET", f"{url}/a%20b?c=d", headers={"Range": "bytes=4-"}) as got:
        assert (got.status_code, got.headers["content-type"]) == (206, "application/x")
        assert b"".join(got.iter_raw()) == BODY
    assert seen[0].startswith(b"GET /a%20b?c=d HTTP/1.1\r\n")
    lines = seen[0].lower().split(b"\r\n")
    assert b"range: bytes=4-" in lines
    assert sum(line.startswith(b"host:") for line in lines) == 1


def test_a_file_that_is_cut_off_is_no_file(client: httpx2.Client) -> None:
    def answer(connection: socket.socket, asked: bytes) -> None:
        connection.sendall(head("200 OK", len(BODY)) + BODY[:1000])

    received = b""
    with (
        server(answer) as url,
        pytest.raises(httpx2.TransportError, match="before the file"),
        client.stream("GET", f"{url}/x") as got,
    ):
        for chunk in got.iter_raw():
            received += chunk
    assert received == BODY[:1000], "what came is used: a later try goes on behind it"


@pytest.mark.parametrize("sent", [b"", head("200 OK", 10) + b"half"])
def test_tq_02_silence_has_a_bound_before_the_answer_and_within_it(client: httpx2.Client, sent: bytes) -> None:
    over = threading.Event()

    def answer(connection: socket.socket, asked: bytes) -> None:
        connection.sendall(sent)
        over.wait(LIMIT_S)

    with server(answer) as url:
        timeout = httpx2.Timeout(0.2, connect=5.0)
        with pytest.raises(httpx2.TimeoutException), client.stream("GET", f"{url}/x", timeout=timeout) as got:
            list(got.iter_raw())
        over.set()


@pytest.mark.parametrize("sent", [b"no http at all\r\n\r\n", b""])
def test_what_is_no_answer_is_an_error_of_the_transport(client: httpx2.Client, sent: bytes) -> None:
    with (
        server(lambda connection, asked: connection.sendall(sent)) as url,
        pytest.raises(httpx2.TransportError),
        client.stream("GET", f"{url}/x"),
    ):
        pass


def test_a_closed_port_is_an_error_of_the_transport(client: httpx2.Client) -> None:
    with pytest.raises(httpx2.TransportError), client.stream("GET", f"http://127.0.0.1:{free_port()}/x"):
        pass


def test_a_status_without_a_body_is_an_answer(client: httpx2.Client) -> None:
    with (
        server(lambda connection, asked: connection.sendall(head("404 Not Found", 0))) as url,
        client.stream("GET", f"{url}/x") as got,
    ):
        assert got.status_code == 404
        assert list(got.iter_raw()) == []
