"""A body that is refused costs a bounded time and a bounded number of bytes, and its client gets the answer; clients
without a key that hold connections keep no other client out.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from localai.clock import boottime
from tests.integration.web.bench import KEY, Bench, WebProcess
from tests.loopback import LIMIT_S
from tests.slow_clients import A_BYTE, A_LOGIN, STRANGER, held, is_closed
from web import unread_body
from web.limits import FIRST_HEAD_S

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
#: What the kernel holds of a connection in both directions, and what is on its way.
BUFFERS = 32 * MIB
REFUSED = {401: ("/v1/chat/completions", ""), 404: ("/no/such/route", KEY), 413: ("/v1/chat/completions", KEY)}


@pytest.fixture
def connection(web: WebProcess) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", web.settings.port), timeout=LIMIT_S) as connection:
        yield connection


def head(status: int, length: int) -> bytes:
    path, key = REFUSED[status]
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nx-api-key: {key}\r\nContent-Length: {length}\r\n\r\n".encode()


def answer(connection: socket.socket) -> tuple[int, bytes]:
    """The status and the body of the next answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        assert piece, data
        data += piece
    top, _, rest = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in top.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(rest) < length:
        rest += connection.recv(65536)
    return int(top.split()[1]), rest


@pytest.mark.parametrize("status", list(REFUSED))
def test_a_refused_body_within_the_bounds_leaves_its_connection_usable(
    bench: Bench, connection: socket.socket, status: int
) -> None:
    connection.sendall(head(status, 20 * MIB) + bytes(20 * MIB))
    assert answer(connection)[0] == status
    connection.sendall(f"GET /v1/models HTTP/1.1\r\nHost: x\r\nx-api-key: {KEY}\r\n\r\n".encode())
    assert answer(connection)[0] == 200


@pytest.mark.parametrize("status", list(REFUSED))
def test_a_refused_body_without_end_is_read_up_to_a_limit(bench: Bench, connection: socket.socket, status: int) -> None:
    connection.sendall(head(status, 10**12))
    sent, piece = 0, bytes(MIB)
    with pytest.raises(OSError):
        while sent < unread_body.LIMIT_BYTES + BUFFERS:
            connection.sendall(piece)
            sent += len(piece)
    assert sent >= unread_body.LIMIT_BYTES // 2


def test_a_refused_body_that_trickles_is_given_up_after_a_while(bench: Bench, connection: socket.socket) -> None:
    connection.sendall(head(401, 1000) + b"x")
    began = boottime()
    assert answer(connection)[0] == 401
    assert boottime() - began < unread_body.LIMIT_S, "the answer waits for no body"
    assert connection.recv(1) == b"", "the connection was closed"
    assert boottime() - began < unread_body.LIMIT_S + 10


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def test_100_held_logins_with_large_bodies_use_little_memory(bench: Bench, web: WebProcess) -> None:
    assert web.client.get("/v1/models").status_code == 200
    before = resident_mib(web.worker_pid())
    with held(web.settings.port, 100, A_LOGIN % 15_000_000 + bytes(200_000), STRANGER) as opened:
        for connection in opened:
            assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
        assert resident_mib(web.worker_pid()) - before < 50.0


def test_above_the_bound_of_an_address_its_oldest_connections_give_way(bench: Bench, web: WebProcess) -> None:
    began, bound = boottime(), web.settings.connections_per_address
    with held(web.settings.port, bound + 100, A_BYTE, STRANGER) as opened:
        assert all(is_closed(connection) for connection in opened[:100])
        assert boottime() - began < FIRST_HEAD_S, "before the time of a head"
        opened[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            opened[-1].recv(1)
        with httpx2.Client(base_url=web.url, timeout=LIMIT_S) as other:
            assert other.get("/v1/models", headers={"x-api-key": KEY}).status_code == 200
