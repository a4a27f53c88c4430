"""The worker class of gunicorn: connections and the time of requests are bounded, and requests that the HTTP server
refuses before the application are answered in JSON.
"""

from __future__ import annotations

import _socket
import json
import os
import socket
from functools import partial
from typing import Any

import gevent
from gevent.server import StreamServer
from gunicorn.http import errors as http_errors
from gunicorn.workers.ggevent import GeventWorker

from localai import logs
from localai.ids import new_id
from localai.settings import Settings
from web import body_clock, connections, limits, unread_body
from web.connections import Connection, Connections
from web.proxies import Proxies

log = logs.get("web.gunicorn")

#: The first class that fits decides.
_STATUS: tuple[tuple[type[BaseException], int, str], ...] = (
    (http_errors.InvalidResponseHeader, 500, "Internal Server Error"),
    (http_errors.InvalidResponseHeaderName, 500, "Internal Server Error"),
    (http_errors.ConfigurationProblem, 500, "Internal Server Error"),
    (http_errors.UnsupportedTransferCoding, 501, "Not Implemented"),
    (http_errors.LimitRequestLine, 414, "URI Too Long"),
    (http_errors.LimitRequestHeaders, 431, "Request Header Fields Too Large"),
    (http_errors.ExpectationFailed, 417, "Expectation Failed"),
    (http_errors.ForbiddenProxyRequest, 403, "Forbidden"),
    (http_errors.ParseException, 400, "Bad Request"),
    (http_errors.InvalidChunkSize, 400, "Bad Request"),
    (http_errors.ChunkMissingTerminator, 400, "Bad Request"),
)
_FAULT = (500, "Internal Server Error")
_REASON_CHARACTERS = 200
_WRITE_LIMIT_S = 5.0


_limits: dict[str, Any] = {"per_address": 0, "trusts": Proxies(()).trusts}


def limit(settings: Settings) -> None:
    """Set the bounds of connections, in the master."""
    _limits.update(per_address=settings.connections_per_address, trusts=Proxies(settings.trusted_proxies).trusts)


class Server(StreamServer):  # type: ignore[misc]  # gevent's servers have no types
    """A listener whose connections are counted from their first moment, before a handshake."""

    def __init__(self, worker: Worker, listener: Any, *, spawn: Any, ssl_context: Any = None, **_: Any) -> None:
        with_tls = {} if ssl_context is None else {"ssl_context": ssl_context}
        super().__init__(listener, handle=partial(worker.handle, listener), spawn=spawn, **with_tls)
        self._connections = worker.connections
        if worker.cfg.workers > 1:
            self.max_accept = 1

    def do_handle(self, client: Any, address: Any) -> None:
        """Serve a connection in a greenlet of its own."""
        peer = str(address[0]) if isinstance(address, tuple) else ""
        served: list[gevent.Greenlet] = []
        connection = self._connections.admit(peer, lambda: _end(served))
        try:
            served.append(self._spawn(self._serve, connection, client, address))
        except BaseException:
            connection.end()
            client.close()
            raise

    def _serve(self, connection: Connection, client: Any, address: Any) -> None:
        try:
            with connection:
                self._handle(client, address)
        finally:
            client.close()


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """A gevent worker with bounds, and with errors in the shape of the API."""

    def init_process(self) -> None:
        self.connections = Connections(self.worker_connections, **_limits)
        self.server_class = partial(Server, self)
        super().init_process()

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        gevent.getcurrent().client = client  # after its handshake
        super().handle(listener, client, addr)

    def timeout_ctx(self) -> gevent.Timeout:
        """The limit of the wait for a request's head: the keepalive's after the first request of a connection."""
        connection = connections.current()
        first = connection is not None and not connection.requests
        return gevent.Timeout(limits.FIRST_HEAD_S if first else self.cfg.keepalive, False)  # type: ignore[arg-type]

    def handle_request(self, listener_name: Any, req: Any, sock: Any, addr: Any) -> None:
        connection = connections.current()
        assert connection is not None  # every server of this class has counted it
        connection.begin_request()
        with body_clock.timed(req.unreader):
            super().handle_request(listener_name, req, sock, addr)
        connection.end_request()

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: BaseException) -> None:
        """Answer a request that never reached the application, or that it failed to answer; then close."""
        request_id = new_id()
        status, _ = status_of(exc)
        if status == _FAULT[0]:
            log.error("a request failed before its answer", exc_info=exc, extra=logs.fields(request_id=request_id))
        else:
            log.warning("a request is refused: %s", _cut(exc), extra=logs.fields(request_id=request_id, status=status))
        agent = str(getattr(req, "path", "") or "").startswith("/api/node/")
        _send(client, response(exc, request_id, agent=agent))


def _end(served: list[gevent.Greenlet]) -> None:
    """End the connection of a greenlet: it finds its input and output closed, or is killed before the first request."""
    for greenlet in served:
        client = getattr(greenlet, "client", None)
        if client is None:
            greenlet.kill(block=False)
            continue
        try:
            other = _socket.socket(fileno=os.dup(client.fileno()))  # of TLS too, which would want to say goodbye
        except OSError:
            continue  # it is closed
        try:
            other.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # the client closed it
        finally:
            other.close()


def status_of(error: BaseException) -> tuple[int, str]:
    """Status and reason of the answer to an error of the HTTP server."""
    return next(((status, reason) for kind, status, reason in _STATUS if isinstance(error, kind)), _FAULT)


def response(error: BaseException, request_id: str, *, agent: bool = False) -> bytes:
    """The whole response; routes of agents have an envelope of their own."""
    status, reason = status_of(error)
    if status == _FAULT[0]:
        message = f"a fault of the server; its log has the details under request id {request_id}"
        inner = {"message": message, "type": "server_error", "code": "server_error", "param": None}
    else:
        message = f"the HTTP server refused the request: {_cut(error) or reason}"
        code = reason.lower().replace(" ", "_")
        inner = {"message": message, "type": "invalid_request_error", "code": code, "param": None}
    body = json.dumps({"error": message if agent else inner}).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"X-Content-Type-Options: nosniff\r\nX-Request-Id: {request_id}\r\nX-Correlation-ID: {request_id}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _cut(error: BaseException) -> str:
    text = str(error)
    return text if len(text) <= _REASON_CHARACTERS else text[:_REASON_CHARACTERS] + "..."


def _send(client: socket.socket, data: bytes) -> None:
    """Send the response and read on within bounds: a close with unread bytes would reset the connection, and the
    client might never see the response."""
    try:
        with gevent.Timeout(_WRITE_LIMIT_S, False):  # type: ignore[arg-type]  # False: leave the block silently
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        with gevent.Timeout(unread_body.LIMIT_S, False):  # type: ignore[arg-type]
            left = unread_body.LIMIT_BYTES
            while left > 0 and (piece := client.recv(65536)):
                left -= len(piece)
    except OSError:
        return  # the client is gone
