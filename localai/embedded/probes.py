"""Does an embedded server answer, and is it ours?

Each probe shows the server's secret: whoever else listens on the port is not taken for it.
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


def nats_answers(port: int, token: str) -> bool:
    """Whether a NATS server accepts the token."""
    hello = b'CONNECT {"verbose":false,"pedantic":false,"auth_token":"%s"}\r\nPING\r\n' % token.encode()
    return _dialogue(port, hello, b"PONG\r\n")


def valkey_answers(port: int, password: str) -> bool:
    """Whether a Valkey server accepts the password and has read its data."""
    return _dialogue(port, b"AUTH %s\r\nPING\r\n" % password.encode(), b"+PONG\r\n")


def postgres_answers(port: int, user: str, password: str, database: str) -> bool:
    """Whether PostgreSQL accepts the login; makes ``database`` the first time."""
    if not accepts(port):
        return False
    import psycopg2  # slow to import, and only this probe needs it
    from psycopg2 import errors, sql

    try:
        connection = psycopg2.connect(
            host="127.0.0.1", port=port, user=user, password=password, dbname="postgres", connect_timeout=2
        )
    except psycopg2.OperationalError:
        return False
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,))
            if cursor.fetchone() is None:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
    except errors.DuplicateDatabase:
        pass
    except psycopg2.OperationalError:
        return False
    finally:
        connection.close()
    return True


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
