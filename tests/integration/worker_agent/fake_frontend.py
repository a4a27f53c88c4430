"""A frontend over real HTTP that grants what a test puts there and remembers what an agent says."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from waitress import wasyncore
from waitress.server import create_server

from localai.ids import new_id
from localai.jobs.operation_rules import (
    Answer,
    OperationAnswer,
    OperationReport,
    OpState,
    Order,
    Report,
    ReportAnswer,
    StagedFile,
)

TOKEN = "registration-token"
LIMIT_S = 60.0

Key = tuple[str, int]
Verdict = Callable[[OperationReport], Answer]


class FakeFrontend:
    """Rows are dictionaries here: what is in `orders` is granted, what is in `answers` is answered."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.node_id = new_id()
        self.orders: dict[Key, Order] = {}
        self.answers: dict[Key, Answer] = {}
        #: Otherwise an operation that is READY completes and one that ended is told to stop.
        self.verdict: Verdict = _natural
        self.stop_processes: tuple[str, ...] = ()
        self.registrations: list[dict[str, Any]] = []
        self.deregistered: list[int] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.claims: list[Key] = []
        self.reports: list[Report] = []
        self.ranges: list[str | None] = []
        #: Path -> bytes after which the connection is cut, once.
        self.cuts: dict[str, int] = {}
        #: Path -> bytes after which the connection stays silent, and for how many seconds, again and again.
        self.pauses: dict[str, tuple[int, float]] = {}
        #: Path -> byte that is never sent, nor any after it; the connection stays open.
        self.frozen_at: dict[str, int] = {}
        self._closing = threading.Event()
        self.status = "healthy"
        self.heartbeat_status = 200
        self.report_status = 200
        #: Called before a registration is taken.
        self.before_register: Callable[[], None] = lambda: None
        #: Called before a claim is answered.
        self.before_grant: Callable[[Key], None] = lambda key: None
        self._changed = threading.Condition()
        self._server = create_server(
            # A file is answered from memory: the library forgets to close what it spills to disk.
            self._app,
            host="127.0.0.1",
            port=0,
            threads=8,
            outbuf_overflow=1 << 30,
        )
        self.url = f"http://127.0.0.1:{self._server.effective_port}"
        self._thread = threading.Thread(target=self._server.run, name="fake-frontend", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening: connections are refused from now on."""
        self._closing.set()
        if self._thread.is_alive():
            with suppress(OSError):  # it may have acted on the call before it was woken for it
                self._server.trigger.pull_trigger(partial(wasyncore.close_all, self._server._map))
            self._thread.join(LIMIT_S)
            self._server.task_dispatcher.shutdown(timeout=1)

    def put_file(self, name: str, content: bytes, *, sha256: str | None = None) -> StagedFile:
        """Store a file and describe it as an order does."""
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        digest = sha256 or hashlib.sha256(content).hexdigest()
        source = f"/api/node/{self.node_id}/files/{name}"
        return StagedFile(path=name, size=len(content), sha256=digest, sources=(source,))

    def wait(self, what: str, condition: Callable[[], Any]) -> Any:
        """The first true value of a condition on what was said so far."""
        with self._changed:
            assert self._changed.wait_for(condition, LIMIT_S), f"not seen within {LIMIT_S:g} s: {what}"
            return condition()

    def wait_report(self, order: Order, state: OpState) -> OperationReport:
        """The first report of an operation in that state."""
        return self.wait(f"{order.model} {state.value}", lambda: next(self._said(order, state), None))

    def wait_no_process(self, instance: str) -> None:
        """Until the newest report does not list the process."""
        self.wait("the process left the report", lambda: instance not in self.instances())

    def instances(self) -> set[str]:
        """The processes of the newest report."""
        newest = self.reports[-1:] or [Report(incarnation=0, seq=0)]
        return {process.process_instance for process in newest[0].processes}

    def said(self, order: Order) -> Iterator[OperationReport]:
        """Everything that reports said about an operation."""
        for report in list(self.reports):
            for operation in report.operations:
                if (operation.job_id, operation.op_generation) == (order.job_id, order.op_generation):
                    yield operation

    def _said(self, order: Order, state: OpState) -> Iterator[OperationReport]:
        return (operation for operation in self.said(order) if operation.op_state is state)

    def _app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = json.loads(environ["wsgi.input"].read(length)) if length else {}
        path = environ["PATH_INFO"]
        if "/files/" in path:
            return self._file(path.partition("/files/")[2], environ, start_response)
        status, answer = self._answer(path, body, environ.get("HTTP_AUTHORIZATION", ""))
        with self._changed:
            self._changed.notify_all()
        content = json.dumps(answer).encode()
        start_response(f"{status} x", [("Content-Type", "application/json"), ("Content-Length", str(len(content)))])
        return [content]

    def _answer(self, path: str, body: dict[str, Any], auth: str) -> tuple[int, dict[str, Any]]:
        if path == "/api/node/register":
            return self._register(body, auth)
        if auth not in ("Bearer node-token", f"Bearer {TOKEN}"):
            return 401, {"error": "the credential is not accepted"}
        return self._answer_node(path, body)

    def _answer_node(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path.endswith("/heartbeat"):
            self.heartbeats.append(body)
            return self.heartbeat_status, {"message": "heartbeat received", "status": self.status}
        if path.endswith("/deregister"):
            self.deregistered.append(body["incarnation"])
            return 200, {"message": "node set to offline"}
        if path.endswith("/report"):
            return self._report(Report.from_json(body))
        if claim := re.search(r"/jobs/([^/]+)/claim$", path):
            return self._claim((claim[1], int(body["op_generation"])))
        return 404, {"error": "not found"}

    def _claim(self, key: Key) -> tuple[int, dict[str, Any]]:
        self.claims.append(key)
        self.before_grant(key)
        order = self.orders.get(key)
        return (409, {"error": "refused", "state": "failed"}) if order is None else (200, order.to_json())

    def _register(self, body: dict[str, Any], auth: str) -> tuple[int, dict[str, Any]]:
        if body.get("token") != TOKEN or auth != f"Bearer {TOKEN}":
            return 401, {"error": "wrong token"}
        self.before_register()
        self.registrations.append(body)
        return 201, {
            "id": self.node_id,
            "name": body["name"],
            "node_type": "backend",
            "status": self.status,
            "incarnation": len(self.registrations),
            "node_token": "node-token",
            "link": {"kind": "nats"},
        }

    def _report(self, report: Report) -> tuple[int, dict[str, Any]]:
        self.reports.append(report)
        answers = tuple(
            OperationAnswer(
                job_id=operation.job_id,
                op_generation=operation.op_generation,
                answer=self.answers.get((operation.job_id, operation.op_generation)) or self.verdict(operation),
            )
            for operation in report.operations
        )
        return self.report_status, ReportAnswer(operations=answers, stop_processes=self.stop_processes).to_json()

    def _file(self, name: str, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path, wanted = self.files / unquote(name), environ.get("HTTP_RANGE")
        self.ranges.append(wanted)
        if not path.is_file():
            start_response("404 x", [("Content-Length", "0")])
            return []
        content = path.read_bytes()
        start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1]) if wanted else 0  # type: ignore[index]
        part = content[start:]
        headers = [("Content-Length", str(len(part)))]
        if wanted:
            headers.append(("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"))
        start_response("206 x" if wanted else "200 x", headers)
        if name in self.frozen_at:
            return self._frozen(part[: max(0, self.frozen_at[name] - start)])
        if name in self.pauses:
            return self._slowly(part, *self.pauses[name])
        cut = self.cuts.pop(name, None)
        return [part] if cut is None else _cut(part, cut)

    def _frozen(self, part: bytes) -> Iterator[bytes]:
        if part:
            yield part
        self._closing.wait(LIMIT_S)

    def _slowly(self, part: bytes, size: int, pause_s: float) -> Iterator[bytes]:
        for start in range(0, len(part), size):
            if start and self._closing.wait(pause_s):
                return
            yield part[start : start + size]


def _cut(part: bytes, cut: int) -> Iterator[bytes]:
    yield part[:cut]
    raise ConnectionError("cut by the test")


def _natural(report: OperationReport) -> Answer:
    match report.op_state:
        case OpState.READY:
            return Answer.COMPLETE
        case OpState.ENDED:
            return Answer.STOP
        case _:
            return Answer.KEEP
