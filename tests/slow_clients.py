"""Clients that open connections, begin a request on each, and hold it."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.loopback import LIMIT_S

#: An address of this machine that is no trusted proxy.
STRANGER = "127.0.0.2"
A_BYTE = b"P"
A_LOGIN = b"POST /api/auth/token-login HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def held(port: int, count: int, sent: bytes, address: str) -> Iterator[list[socket.socket]]:
    """So many connections from an address, each with the beginning of a request."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = socket.socket()
            stack.callback(connection.close)
            connection.settimeout(LIMIT_S)
            connection.bind((address, 0))
            connection.connect(("127.0.0.1", port))
            connection.sendall(sent)
            opened.append(connection)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    """Whether the server has closed it; waits for that a while."""
    try:
        while connection.recv(65536):  # an answer
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@contextmanager
def open_files(wanted: int) -> Iterator[None]:
    """Allow this process so many open files, or skip the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{wanted} open files are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
