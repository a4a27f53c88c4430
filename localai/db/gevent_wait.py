"""How a greenlet waits for the database without stopping the others of its process."""

from __future__ import annotations

import gevent.socket

from localai.db import waiting


def install_wait_callback() -> None:
    """Waits of a web process: the greenlet yields, the hub goes on. Call it once, after the fork."""
    waiting.install(_ready)


def _ready(fd: int, for_reading: bool, seconds: float) -> bool:
    wait = gevent.socket.wait_read if for_reading else gevent.socket.wait_write
    try:
        wait(fd, timeout=seconds)
    except TimeoutError:
        return False
    return True
