"""The logs of `localai up` stay within their size while it runs, whatever clients ask for."""

from __future__ import annotations

import os
import signal
import socket

import httpx2
import pytest

from localai.embedded.process import LOG_KEPT_BYTES, LOG_LIMIT_BYTES
from tests.acceptance.cluster import API_KEY, Cluster, Frontend, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

REQUESTS = int(os.environ.get("LOG_REQUESTS", "200"))


def test_long_names_make_no_long_lines(up: Frontend) -> None:
    log = up.logs / "web.log"
    before = log.stat().st_size
    with httpx2.Client(base_url=up.url, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=60) as client:
        for number in range(REQUESTS):
            name = f"{number:08}" + "m" * 3892
            assert client.get(f"/v1/models/{name}").status_code == 404
            assert client.post("/v1/embeddings", json={"model": name, "input": "x"}).status_code in (400, 404)
    wait_for("the last line", lambda: log.read_text().count(f"/v1/models/{REQUESTS - 1:08}") == 1)
    grown = log.stat().st_size - before
    assert grown < REQUESTS * 2 * 700, f"{grown / REQUESTS / 2:.0f} bytes for each request"

    before = log.stat().st_size
    host, port = up.url.removeprefix("http://").split(":")
    for method in ("m" * 3900, "GET /" + "m" * 3900 + " HTTP/9.9\r\nX: "):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(f"{method} / HTTP/1.1\r\n\r\n".encode())
            assert connection.recv(12).startswith(b"HTTP/1.1 ")
    assert log.stat().st_size - before < 2 * 2200, "what is no request writes no long line either"


@pytest.mark.long
def test_every_log_is_cut_while_its_process_writes_it(cluster: Cluster) -> None:
    up = cluster.up()
    up.wait_for_nodes(1)
    logs = sorted(up.logs.glob("*.log"))
    assert {log.stem for log in logs} == {"web", "control", "agent", "postgres", "nats", "valkey"}
    for log in logs:
        with log.open("ab") as file:
            file.write(b"x" * 1023 + b"\n" * (LOG_LIMIT_BYTES // 1024 + 1) + b"y" * LOG_LIMIT_BYTES + b"\nlast\n")
    wait_for("every log cut", lambda: all(log.stat().st_size <= LOG_KEPT_BYTES + 65536 for log in logs), 30)
    assert up.get("/v1/models?after=the-cut").status_code == 200
    wait_for("a line behind the cut", lambda: b"path=/v1/models" in (up.logs / "web.log").read_bytes())
    up.process.child("postgres").send_signal(signal.SIGHUP)
    wait_for("a line of PostgreSQL behind the cut", lambda: b"SIGHUP" in (up.logs / "postgres.log").read_bytes())
    assert all(log.stat().st_size <= LOG_KEPT_BYTES + 65536 for log in logs)
    assert up.process.stop() == 0
