"""Which request is this, and the one log line about it.

The id comes from the caller where it sends a usable one, goes out in `X-Request-Id` and `X-Correlation-ID`, and is what
an operator searches the log for.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from flask import Flask, Response, g, request

from localai import callers, logs
from localai.clock import boottime
from localai.db.engine import statement_count
from localai.ids import new_id
from web.outer_scheme import CLIENT

log = logs.get("web.request")

_USABLE = re.compile(r"[A-Za-z0-9._:-]{1,128}")
#: Answers that are asked for every few seconds and say nothing; they are logged at debug level only.
_QUIET = frozenset({"/healthz", "/readyz"})


def request_id() -> str:
    """The id of the request under way."""
    return str(g.request_id)


def client_address() -> str:
    """The address of the client of the request under way; behind a trusted proxy the one that the proxy names."""
    return str(request.environ.get(CLIENT) or request.remote_addr or "")


def note(**fields: object) -> None:
    """Add fields to the line of the request under way, such as `model=`."""
    g.log_fields.update(fields)


def install(app: Flask) -> None:
    """Give every request an id and one log line when its last byte has left."""

    def begin() -> None:
        g.started_at, g.statements = boottime(), statement_count()
        g.request_id = _incoming() or new_id()
        g.log_fields = {}
        callers.begin(None)  # the greenlet of a connection serves its requests one after another

    def end(response: Response) -> Response:
        response.headers["X-Request-Id"] = response.headers["X-Correlation-ID"] = g.request_id
        line = _Line(response.status_code)
        if response.is_streamed:
            response.call_on_close(line.write)
        else:
            line.write()
        return response

    app.before_request(begin)
    app.after_request(end)


def _incoming() -> str | None:
    for name in ("X-Request-Id", "X-Correlation-ID"):
        value = request.headers.get(name, "")
        if _USABLE.fullmatch(value):
            return value
    return None


class _Line:
    """The log line of one request; written when the request may be out of its context already."""

    def __init__(self, status: int) -> None:
        self._started_at, self._statements = g.started_at, g.statements
        self._values: dict[str, Any] = {"method": request.method, "path": request.path, "status": status}
        self._request_id, self._fields, self._client = g.request_id, g.log_fields, client_address()

    def write(self) -> None:
        level = logging.DEBUG if self._values["path"] in _QUIET else logging.INFO
        if not log.isEnabledFor(level):
            return
        values = {
            **self._values,
            "ms": round((boottime() - self._started_at) * 1000, 1),
            "request_id": self._request_id,
            "client": self._client,
            "sql": statement_count() - self._statements,
            **self._fields,
        }
        log.log(level, "request", extra=logs.fields(**values))
