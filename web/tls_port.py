"""TLS of the frontend's port: a handshake ends within seconds, and a failed one costs one line and no traceback."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import gevent

from localai import logs, tls

log = logs.get(__name__)

#: A handshake takes a few round trips. A connection that is longer at it holds a greenlet and sends no request.
HANDSHAKE_LIMIT_S = 10.0


class Context(ssl.SSLContext):
    """The context of a gevent server, whose `wrap_socket` is called for each connection, in its greenlet."""

    @classmethod
    def of(cls, cert: Path, key: Path) -> Context:
        """Raises BadSetting."""
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        tls.load_pair(context, cert, key)
        return context

    def wrap_socket(self, sock: socket.socket, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """The connection after its handshake. Ends the greenlet silently where that fails."""
        sock.settimeout(HANDSHAKE_LIMIT_S)
        try:
            with gevent.Timeout(HANDSHAKE_LIMIT_S, TimeoutError("the handshake took too long")):
                return super().wrap_socket(sock, *arguments, **options)
        except OSError as error:
            log.debug("a TLS handshake failed: %s", error)
            sock.close()
            raise gevent.GreenletExit from None
