"""In the place of the web process: a frontend that knows what the client commands ask."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from note import started

KEY = os.environ["LOCALAI_API_KEY"].split(",", maxsplit=1)[0]
NODE = {"id": "n-1", "name": "box", "status": "pending", "model_count": 0, "available_ram": 2**30}
JOB = {
    "id": "j-1",
    "kind": "model.load",
    "subject": "m",
    "state": "running",
    "phase": "staging",
    "node_name": "box",
    "bytes_done": 1,
    "bytes_total": 4,
}
ASKED = {"cold": 0}


class Frontend(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/readyz":
            self.answer(200, {})
        elif self.headers.get("Authorization") != f"Bearer {KEY}":
            self.answer(401, {"error": {"message": "a key is required", "code": 401}})
        elif self.path == "/api/nodes":
            self.answer(200, [NODE])
        elif self.path.startswith("/api/jobs?") or self.path == "/api/jobs":
            self.answer(200, {"jobs": [JOB], "next": "page-2"})
        elif self.path == "/api/jobs/j-1":
            child = {"id": "j-2", "kind": "model.install", "state": "failed", "error": "no disk"}
            event = {"at": "2026-01-01T00:00:00Z", "event": "claimed", "state": "running", "phase": None}
            self.answer(200, {**JOB, "events": [event], "children": [child]})
        elif unquote(self.path) == "/api/models/cold/load-status":
            self.answer(200, {"model": "cold", "state": "loading", "node": "box", "total_bytes": 0})
        else:
            self.answer(404, {"error": {"message": f"nothing at {self.path}", "code": 404}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        if self.path == "/api/nodes/n-1/approve":
            NODE["status"] = "healthy"
            self.answer(200, NODE)
        elif self.path == "/v1/chat/completions":
            self.chat(body)
        else:
            self.answer(404, {"error": {"message": "no such route", "code": 404}})

    def chat(self, body: dict[str, Any]) -> None:
        model, text = body["model"], body["messages"][-1]["content"]
        if model == "unknown":
            self.answer(404, {"error": {"message": "the model 'unknown' does not exist", "code": "model_not_found"}})
        elif model == "broken":
            error = {"message": "m is held: start_failed: no such library", "code": "model_load_failed"}
            self.answer(503, {"error": error, "loading": {"state": "failed"}}, {"Retry-After": "9"})
        elif model == "cold" and ASKED["cold"] < 2:
            ASKED["cold"] += 1
            error = {"message": "cold is loading", "code": "model_loading"}
            self.answer(503, {"error": error, "loading": {"state": "loading"}}, {"Retry-After": "1"})
        elif not body.get("stream"):
            self.answer(200, {"choices": [{"message": {"role": "assistant", "content": text.upper()}}]})
        else:
            self.stream([text.upper(), "!"], cut=model == "cut")

    def stream(self, pieces: list[str], *, cut: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"data: " + json.dumps({"choices": [{"delta": {"content": piece}}]}).encode() + b"\n\n")
        if not cut:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


started("web")
ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("LOCALAI_PORT", "8080"))), Frontend).serve_forever()
