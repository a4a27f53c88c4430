"""Probes of embedded servers: whether one answers and is ours.

Each probe logs in with a secret, so that another program on the port is not taken for the server.
"""

from __future__ import annotations

import socket

_TIMEOUT_S = 1.0


def accepts(port: int) -> bool:
    """Whether anything accepts connections on this port of loopback."""
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S):
            return True
    except OSError:
        return False


def nats_answers(port: int, user: str, password: str) -> bool:
    """Whether a NATS server accepts the user."""
    login = b'{"verbose":false,"pedantic":false,"user":"%s","pass":"%s"}' % (user.encode(), password.encode())
    hello = b"CONNECT %s\r\nPING\r\n" % login
    return _dialogue(port, hello, b"PONG\r\n")


def valkey_answers(port: int, user: str, password: str) -> bool:
    """Whether a Valkey server accepts the user and has read its data."""
    return _dialogue(port, b"AUTH %s %s\r\nPING\r\n" % (user.encode(), password.encode()), b"+PONG\r\n")


def _dialogue(port: int, words: bytes, wanted: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_S) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.sendall(words)
            heard = b""
            while wanted not in heard:
                part = connection.recv(4096)
                if not part:
                    return False
                heard += part
    except OSError:
        return False
    return True
