"""A server that a test writes down answer by answer, as client commands see it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

#: Status and JSON.
Answer = tuple[int, Any]


@dataclass
class Server:
    """Answers by path; a list is answered one after the other, its last for ever. `asked` are method, path and body."""

    answers: dict[str, list[Answer] | Callable[[Mapping[str, str]], Answer]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)

    def on(self, path: str, *answers: Any) -> None:
        """Answer with these, 200 unless a pair of status and JSON is given."""
        self.answers[path] = [answer if isinstance(answer, tuple) else (200, answer) for answer in answers]

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        self.asked.append((request.method, path, json.loads(request.content) if request.content else None))
        found = self.answers.get(path)
        if found is None:
            return httpx2.Response(404, json={"error": {"message": f"there is nothing at {path}"}})
        if callable(found):
            status, body = found(dict(request.url.params))
        else:
            status, body = found.pop(0) if len(found) > 1 else found[0]
        if body is httpx2.ConnectError:
            raise httpx2.ConnectError("connection refused")
        if isinstance(body, bytes):
            return httpx2.Response(status, content=body)
        return httpx2.Response(status, json=body)
