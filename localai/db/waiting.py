"""How long this process waits for the database's socket, and what it does meanwhile.

Without a wait callback the driver blocks inside C code: a server that is frozen, and not dead, would hold the caller
for ever, because the server's own timeouts do not run either. With one, every wait has an end: a wait that is over
closes the connection and raises ``psycopg2.OperationalError``.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

import psycopg2
from psycopg2 import extensions

from localai.clock import boottime

#: A connection that is not up after this long will not come up in time for anybody.
CONNECT_LIMIT_S = 5.0
#: Above the statement timeout of the server, which answers first when it can answer at all.
STATEMENT_LIMIT_S = 12.0

Ready = Callable[[int, bool, float], bool]


def install(ready: Ready) -> None:
    """Make every connection of this process wait by ``ready(fd, for_reading, seconds) -> in time``."""
    extensions.set_wait_callback(lambda connection: _wait(connection, ready))


def install_for_threads() -> None:
    """Waits of a process that runs threads: the calling thread sleeps in ``poll``."""
    install(_poll)


def _poll(fd: int, for_reading: bool, seconds: float) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLIN if for_reading else select.POLLOUT)
    return bool(poller.poll(seconds * 1000))


def _wait(connection: Any, ready: Ready) -> None:
    connecting = connection.status == extensions.STATUS_SETUP
    limit_s = CONNECT_LIMIT_S if connecting else STATEMENT_LIMIT_S
    ends = boottime() + limit_s
    while True:
        state = connection.poll()
        if state == extensions.POLL_OK:
            return
        left = ends - boottime()
        in_time = left > 0 and ready(connection.fileno(), state == extensions.POLL_READ, left)
        if not in_time:
            raise psycopg2.OperationalError(f"the database did not answer within {limit_s:g} s")
