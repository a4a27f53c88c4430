"""The frontend's port with TLS: handshakes that fail or never end cost neither a traceback nor a place for long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

_PROGRAM = """
from gevent import monkey
monkey.patch_all()
import socket, ssl, sys
from pathlib import Path
from gevent.server import StreamServer
from web import tls_port

ca, cert, key = map(Path, sys.argv[1:])
tls_port.HANDSHAKE_LIMIT_S = 0.5

def answer(connection, address):
    connection.sendall(b"hi")
    connection.close()

def connect():
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=60)

server = StreamServer(("127.0.0.1", 0), answer, ssl_context=tls_port.Context.of(cert, key))
server.start()
silent, plain = connect(), connect()
plain.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
trust = ssl.create_default_context(cafile=ca)
with trust.wrap_socket(connect(), server_hostname="127.0.0.1") as client:
    print(client.version() in ("TLSv1.2", "TLSv1.3"), client.recv(2))
try:
    while plain.recv(1000):
        pass
except ConnectionResetError:
    pass  # its request was not read
print(silent.recv(1))
"""


def test_only_a_complete_handshake_is_served_and_the_others_are_closed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("IP:127.0.0.1")
    arguments = [str(authority.cert), str(pair.cert), str(pair.key)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.splitlines() == ["True b'hi'", "b''"], done.stderr
    assert done.stderr == ""
