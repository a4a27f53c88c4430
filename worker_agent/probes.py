"""`/healthz`, `/readyz` and `/metrics` of a worker's HTTP server, and the server itself."""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from waitress import wasyncore
from waitress.server import create_server

from localai import metrics
from localai.errors import StartRefused
from worker_agent import http_limits
from worker_agent.log_routes import Answer, shows_token
from worker_agent.processes.dialing import DIAL_TIMEOUT_S, Dialed, port_of
from worker_agent.processes.rules import Running

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

#: Returns why the agent is not ready, or None.
Readiness = Callable[[], str | None]
_THREADS = 4
_CLOSE_BOUND_S = 1
_CLOSED = (
    "answered to programs of the worker's machine and with the registration token as a Bearer token; "
    "LOCALAI_OPEN_PROBES=true of the worker opens it to all"
)


class Answers:
    """The WSGI application. ``protected`` answers everything below ``/v1/``, and checks who asks.

    `/healthz` says nothing but that the process runs, and frontends ask for it. The other two say what runs here and
    why it does not: to programs of this machine, to who shows the registration token, or to all with ``open_to_all``.
    """

    def __init__(
        self,
        not_ready: Readiness,
        protected: Callable[[WSGIEnvironment], Answer],
        *,
        registration_token: str = "",
        open_to_all: bool = False,
    ) -> None:
        self._not_ready, self._protected = not_ready, protected
        self._token, self._open_to_all = registration_token, open_to_all

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/v1/"):
            status, kind, body = self._protected(environ)
        else:
            status, kind, body = self._answer(environ)
        start_response(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [b""] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: WSGIEnvironment) -> Answer:
        path = environ["PATH_INFO"]
        if path not in ("/healthz", "/readyz", "/metrics"):
            return _text("404 Not Found", "not found")
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text("405 Method Not Allowed", "GET or HEAD")
        if path == "/healthz":
            return _text("200 OK", "ok")
        if not self._may_ask(environ):
            return _text("403 Forbidden", _CLOSED)
        if path == "/metrics":
            return "200 OK", metrics.CONTENT_TYPE, metrics.exposition(metrics.collected(metrics.AGENT))
        reason = self._not_ready()
        if reason is None:
            return _text("200 OK", "ok")
        return _text("503 Service Unavailable", f"not ready: {reason}")

    def _may_ask(self, environ: WSGIEnvironment) -> bool:
        peer = environ.get("REMOTE_ADDR", "")
        return self._open_to_all or _is_loopback(peer) or bool(self._token and shows_token(environ, self._token))


class ProbeServer:
    """The HTTP server of the agent."""

    def __init__(self, host: str, port: int, answers: Answers, *, request_s: int = http_limits.REQUEST_S) -> None:
        self._channels: dict[int, Any] = {}
        # The stubs of the library name neither its trigger nor the class of its connections.
        server: Any = create_server(
            answers,
            map=self._channels,
            sockets=[_listen(host, port)],
            threads=_THREADS,
            ident="localai-worker",
            **http_limits.adjustments(request_s),
        )
        server.channel_class = http_limits.Channel
        self._server = server
        self._thread = threading.Thread(target=self._server.run, name="probes", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening. The loop is told on its own thread: closed under it, it would fail."""
        if self._thread.is_alive():
            with suppress(OSError):  # it may have acted on the call before it was woken for it
                self._server.trigger.pull_trigger(partial(wasyncore.close_all, self._channels))
            self._thread.join(_CLOSE_BOUND_S)
        else:
            self._server.close()
        self._server.task_dispatcher.shutdown(timeout=_CLOSE_BOUND_S)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _text(status: str, line: str) -> Answer:
    return status, "text/plain; charset=utf-8", (line + "\n").encode()


def readiness(
    *,
    bus_connected: Callable[[], bool],
    queue_problem: Callable[[], str | None],
    serving: Callable[[], list[Running]],
    dial: Callable[[int], Dialed],
    process_problem: Callable[[], str | None],
) -> str | None:
    """Why a registered agent is not ready, the first reason found; None when it is."""
    if (problem := queue_problem()) is not None:
        return problem
    if not bus_connected():
        return "the event bus is not connected"
    for running in serving():
        match dial(port_of(running)):
            case Dialed.REFUSED:
                return f"the process of {running.process_key} refuses connections"
            case Dialed.SILENT:
                return f"the process of {running.process_key} does not take a connection within {DIAL_TIMEOUT_S:g} s"
    return process_problem()


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises StartRefused when the port is taken or the host is not of this machine."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StartRefused(
                f"port {port} on {host} is in use, by a worker, a program or, for a moment, an outgoing connection; "
                "LOCALAI_HTTP_ADDR sets the worker's HTTP address; without it, it is the port below LOCALAI_SERVE_ADDR"
            ) from None
        raise StartRefused(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
