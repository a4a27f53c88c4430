"""The worker class of gunicorn: requests that the HTTP server refuses before the application are answered in JSON."""

from __future__ import annotations

import json
import socket
from typing import Any

import gevent
from gunicorn.http import errors as http_errors
from gunicorn.workers.ggevent import GeventWorker

from localai import logs
from localai.ids import new_id
from web import unread_body

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


class Worker(GeventWorker):  # type: ignore[misc]  # gunicorn has no types
    """A gevent worker with errors in the shape of the API."""

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
