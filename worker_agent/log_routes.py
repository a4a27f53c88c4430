"""GET /v1/backend-logs and /v1/backend-logs/<model> of the worker's HTTP server: what model processes wrote."""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from worker_agent.processes.log_reader import models_with_logs, read_logs

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_PREFIX = "/v1/backend-logs"
_LINES = 200

#: Status, content type, body.
Answer = tuple[str, str, bytes]


class LogRoutes:
    """Everything below ``/v1/``. The caller shows the registration token; without one anybody may ask.

    A worker that joined with a join token shares no token with the frontends. They show the hash of its credential.
    """

    def __init__(self, folder: Path, registration_token: str) -> None:
        self._folder, self._token, self._key = folder, registration_token, ""

    def accept(self, key: str) -> None:
        """Accept this text, too, from now on."""
        self._key = key

    def __call__(self, environ: WSGIEnvironment) -> Answer:
        if not self._may_ask(environ.get("HTTP_AUTHORIZATION", "")):
            return _error("401 Unauthorized", "the registration token is needed")
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        if path != _PREFIX and not path.startswith(_PREFIX + "/"):
            return _error("404 Not Found", "not found")
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _error("405 Method Not Allowed", "GET or HEAD")
        model = path.removeprefix(_PREFIX).removeprefix("/")
        query = parse_qs(environ.get("QUERY_STRING", ""))
        return self._read(model, query) if model else _json("200 OK", models_with_logs(self._folder))

    def _read(self, model: str, query: dict[str, list[str]]) -> Answer:
        lines, after = query.get("lines", [str(_LINES)])[0], query.get("after", [""])[0]
        if not lines.isdecimal():
            return _error("400 Bad Request", f"lines: {lines!r} is no whole number")
        try:
            page = read_logs(self._folder, model, lines=int(lines[:9]), after=after)
        except ValueError:
            return _error("400 Bad Request", "after: not a cursor of an earlier answer")
        if page is None:
            return _error("404 Not Found", f"no process of model {model!r} has written anything here")
        return _json("200 OK", {"model": model, "logs": [asdict(part) for part in page.parts], "cursor": page.cursor})

    def _may_ask(self, authorization: str) -> bool:
        shown = authorization.removeprefix("Bearer ").strip().encode("latin-1", "replace")
        by_token = hmac.compare_digest(self._token.encode(), shown)
        by_key = hmac.compare_digest(self._key.encode(), shown)
        return not self._token or by_token or (by_key and self._key != "")


def shows_token(environ: WSGIEnvironment, token: str) -> bool:
    """Whether a request has this token as its Bearer token."""
    shown = str(environ.get("HTTP_AUTHORIZATION", "")).removeprefix("Bearer ").strip().encode("latin-1", "replace")
    return hmac.compare_digest(token.encode(), shown)


def _json(status: str, value: object) -> Answer:
    return status, "application/json", (json.dumps(value, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _error(status: str, text: str) -> Answer:
    return _json(status, {"error": text})
