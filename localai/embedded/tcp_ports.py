"""Which ports of this machine are free, and which are drawn for servers?"""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Callable, Collection

from localai.errors import StartRefused

#: Below the range that systems give to outgoing connections (Linux from 32768, macOS from 49152): a client that tries
#: again and again to reach a server that is down could otherwise be given the server's own port and answer itself.
DRAW_FROM = range(15_000, 32_000)
_DRAWS = 1000


def bind_error(address: str, port: int) -> OSError | None:
    """Why nobody could listen there now, or None when it is free.

    Binds with SO_REUSEADDR only: that is refused while anything listens, and not for a minute after it ended.
    """
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
    except OSError as error:
        return error
    return None


def is_free(port: int) -> bool:
    """Whether a server could listen on this port of loopback now."""
    return bind_error("127.0.0.1", port) is None


def draw(taken: Collection[int] = (), free: Callable[[int], bool] = is_free) -> int:
    """A free port that is not in ``taken``. Raises StartRefused when none was found."""
    for _ in range(_DRAWS):
        port = random.choice(DRAW_FROM)
        if port not in taken and free(port):
            return port
    raise StartRefused(f"no free port from {DRAW_FROM.start} to {DRAW_FROM.stop - 1} on 127.0.0.1")


def require_free(address: str, port: int, flag: str) -> None:
    """Refuse a port that cannot be listened on, with a line that names it and the flag to change it."""
    error = bind_error(address, port)
    if error is None:
        return
    match error.errno:
        case errno.EADDRINUSE:
            raise StartRefused(f"port {port} on {address} is in use by another process; choose another with {flag}")
        case errno.EACCES:
            raise StartRefused(f"port {port} on {address} may not be used by this account; choose another with {flag}")
        case _:
            raise StartRefused(f"cannot listen on {address}, port {port}: {error.strerror or error}")
