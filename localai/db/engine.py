"""How this process reaches PostgreSQL: one pool, short limits on every statement, one count of statements."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import psycopg2.extras  # noqa: F401  # the dialect imports it with the first engine: forks inherit it from here
import sqlalchemy
import sqlalchemy.dialects.postgresql.psycopg2  # the same
from psycopg2 import extensions
from sqlalchemy import Engine, event
from sqlalchemy.engine import URL, make_url

from localai.db import waiting

#: Every contended statement waits for a row lock for milliseconds; a second means that something is wrong.
LOCK_TIMEOUT_MS = 1_000
STATEMENT_TIMEOUT_MS = 10_000
#: A transaction that is open and silent for this long was forgotten by a process that froze.
IDLE_TRANSACTION_TIMEOUT_MS = 15_000
CONNECT_TIMEOUT_S = 5
#: A caller that got no connection for this long gets an error and not a place in a growing line.
POOL_TIMEOUT_S = 5.0

_STATEMENTS: ContextVar[int] = ContextVar("statements", default=0)


def statement_count() -> int:
    """Statements sent so far in this context (a request's greenlet, a thread). Take the difference of two readings."""
    return _STATEMENTS.get()


def make_engine(url: str, *, application: str, pool_size: int = 5) -> Engine:
    """A pool of at most twice ``pool_size`` connections, none opened yet. Make it after the fork.

    The limits travel in the start packet of each connection, so they win over what ``ALTER ROLE ... SET`` says, and
    no statement has to be sent to set them. A process that has not chosen how it waits for the socket gets the waits
    of threads; see `localai.db.waiting`.
    """
    if extensions.get_wait_callback() is None:
        waiting.install_for_threads()
    engine = sqlalchemy.create_engine(
        _with_driver(url),
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=POOL_TIMEOUT_S,
        pool_use_lifo=True,
        isolation_level="READ COMMITTED",
        # The text of an error goes into logs, and a parameter may be a secret.
        hide_parameters=True,
        connect_args={
            "application_name": application[:63],
            "connect_timeout": CONNECT_TIMEOUT_S,
            "tcp_user_timeout": STATEMENT_TIMEOUT_MS,
            "options": " ".join(
                f"-c {name}={value}"
                for name, value in (
                    ("lock_timeout", LOCK_TIMEOUT_MS),
                    ("statement_timeout", STATEMENT_TIMEOUT_MS),
                    ("idle_in_transaction_session_timeout", IDLE_TRANSACTION_TIMEOUT_MS),
                    ("timezone", "UTC"),
                )
            ),
        },
    )
    event.listen(engine, "connect", _ids_as_text)
    event.listen(engine, "before_cursor_execute", _count)
    return engine


def _with_driver(url: str) -> URL:
    parsed = make_url(url.replace("postgres://", "postgresql://", 1) if url.startswith("postgres://") else url)
    return parsed.set(drivername="postgresql+psycopg2")


#: Type of a uuid column. The whole code base, JSON and the bus know ids as text.
_UUID_TYPE = extensions.new_type((2950,), "UUID_TEXT", lambda value, _: value)


def _ids_as_text(connection: Any, _: Any) -> None:
    extensions.register_type(_UUID_TYPE, connection)


def _count(*_: Any) -> None:
    _STATEMENTS.set(_STATEMENTS.get() + 1)
