"""What a web process does while the database, or a client, is away."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from tests.fakes.inference import Silent, says
from tests.integration.web.bench import Bench, Freezable
from tests.loopback import LIMIT_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_pm_02_a_frozen_database_stops_no_loaded_model_and_is_503_within_a_bound(bench: Bench) -> None:
    database = urlsplit(bench.settings.database_url)
    assert database.hostname and database.port
    forwarder = Freezable(database.hostname, database.port)
    account = database.netloc.rpartition("@")[0]
    url = database._replace(netloc=f"{account}@127.0.0.1:{forwarder.port}").geturl()
    try:
        web = bench.web(database_url=url)
        bench.node(web, "frozen-database")
        bench.model("loaded")
        bench.model("unloaded")
        wait = bench.in_background(lambda: web.chat("loaded"))
        bench.load("loaded", bench.backend(says("served")))
        assert wait.result(LIMIT_S).status_code == 200

        forwarder.freeze()
        cold = bench.in_background(lambda: web.chat("unloaded"))
        eventually(lambda: "stale routing" in web.client.get("/readyz").text, "stale routing")
        for stream in (False, True):
            assert web.chat("loaded", stream=stream).status_code == 200
        answer = cold.result(LIMIT_S)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "storage_unavailable")
        listed = web.client.get("/api/jobs")
        assert listed.status_code == 503 and "psycopg" not in listed.text
        assert web.client.get("/healthz").status_code == 200

        forwarder.thaw()
        eventually(lambda: web.client.get("/readyz").text == "", "fresh routes")
        assert web.client.get("/api/jobs").status_code == 200
        assert web.chat("loaded").status_code == 200
    finally:
        forwarder.close()


def test_a_web_process_without_a_database_says_that_it_starts(bench: Bench) -> None:
    from tests.integration.web.bench import WebProcess

    process = WebProcess(replace(bench.settings, database_url="postgresql://x:y@127.0.0.1:1/z"), bench.folder)
    try:
        eventually(lambda: _answers(process), "an answer")
        response = process.client.get("/readyz")
        assert response.status_code == 503 and response.json()["status"] == "starting"
        assert process.client.get("/healthz").status_code == 200
        refused = process.client.get("/api/jobs")
        assert refused.status_code == 503 and "127.0.0.1" not in refused.text
    finally:
        process.stop()


def _answers(process: object) -> bool:
    import httpx2

    try:
        return process.client.get("/healthz").status_code == 200  # type: ignore[attr-defined]
    except httpx2.TransportError:
        return False


def test_pm_03_clients_that_leave_at_any_moment_leave_nothing_behind(bench: Bench) -> None:
    web = bench.web()
    bench.node(web, "aborted")
    bench.model("aborted")
    wait = bench.in_background(lambda: web.chat("aborted"))
    bench.load("aborted", bench.backend(says(*"abcdefgh")))
    assert wait.result(LIMIT_S).status_code == 200
    bench.model("never-loaded")

    drawn = random.Random(7)

    def abort(number: int) -> None:
        model = drawn.choice(["aborted", "aborted", "never-loaded"])
        connection = web.open_chat(model, stream=drawn.random() < 0.5)
        threading.Event().wait(drawn.random() * 0.02)
        connection.close()

    list(bench.threads.map(abort, range(300)))
    answers = [web.chat("aborted").status_code for _ in range(20)]
    assert answers == [200] * 20

    def quiet() -> bool:
        with bench.engine.connect() as connection:
            idle = connection.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'localai-web%%'"
                " AND state LIKE 'idle in transaction%%'"
            ).scalar_one()
        return bool(idle == 0)

    eventually(quiet, "no open transaction")
    assert len(web.client.get("/api/jobs?subject=never-loaded").json()["jobs"]) == 1


def test_pm_06_closed_streams_to_a_silent_model_give_their_handles_back(bench: Bench) -> None:
    from pathlib import Path

    web = bench.web()
    bench.node(web, "handles")
    bench.model("handles")
    script = Silent("first")
    wait = bench.in_background(lambda: bench.load("handles", bench.backend(script)))
    first = web.open_chat("handles", stream=True)
    wait.result(LIMIT_S)
    assert script.started.wait(LIMIT_S)
    handles = Path(f"/proc/{web.worker_pid()}/fd")
    before = len(list(handles.iterdir()))
    # As many as the process in this test serves at once; each is silent after its first piece.
    streams = [web.open_chat("handles", stream=True) for _ in range(12)]
    for stream in streams:
        assert b"first" in _received(stream, b"first")
    for stream in (*streams, first):
        stream.close()
    eventually(lambda: len(list(handles.iterdir())) <= before, "the handles given back", 20)


def _received(connection: object, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        found += connection.recv(65536)  # type: ignore[attr-defined]
    return found
