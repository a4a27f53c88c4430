"""Calls that hang: an unload waits for them, and a person, a bound or a limit ends them and the exact process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx2
import psutil
import pytest

from tests.acceptance.cluster import LIMIT_S, Cluster, Frontend, alive, wait_for
from tests.acceptance.test_cli import model, replicas, run

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

#: Longer than a loaded machine takes to force or cancel an unload.
BOUND_S = 15


@pytest.fixture(scope="module")
def server(shared_cluster: Cluster) -> Iterator[Frontend]:
    frontend = shared_cluster.up(LOCALAI_UNLOAD_TIMEOUT=f"{BOUND_S}s", LOCALAI_THREADS="1")
    frontend.wait_for_nodes(1)
    yield frontend


class Call:
    """One request in a thread, whole or as a stream."""

    def __init__(self, server: Frontend, path: str, body: dict[str, Any]) -> None:
        self._server, self._path, self._body = server, path, body
        self.response: httpx2.Response | None = None
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        self.response = self._server.post(self._path, self._body, timeout=300)

    @property
    def over(self) -> bool:
        return self.response is not None

    def end(self) -> httpx2.Response:
        self._thread.join(LIMIT_S)
        assert self.response is not None, "the call still hangs"
        return self.response


def chat(server: Frontend, name: str, **body: Any) -> Call:
    return Call(
        server,
        "/v1/chat/completions",
        {"model": name, "messages": [{"role": "user", "content": "hello"}], **body},
    )


class Hung:
    """A loaded model with a call that hangs, and its process."""

    def __init__(self, cluster: Cluster, server: Frontend, name: str, **body: Any) -> None:
        self.server, self.name = server, model(cluster, server, name, "hang_in_predict:true")
        assert run(server, "models", "load", name, "--wait").returncode == 0
        (self.replica,) = replicas(server, name)
        (self.process,) = processes_of(self.replica["process_instance"])
        self.call = chat(server, name, **body)
        wait_for("the call in flight", lambda: replicas(server, name)[0]["in_flight"] == 1)

    def unload(self, **body: Any) -> httpx2.Response:
        return self.server.post("/backend/shutdown", {"model": self.name, **body})

    def wait_until_it_waits(self, job_id: str) -> None:
        wait_for("an unload that waits", lambda: "1 request in flight" in str(self.job(job_id)["message"]))
        assert alive(self.process) and not self.call.over

    def job(self, job_id: str) -> dict[str, Any]:
        return dict(self.server.get(f"/api/jobs/{job_id}").json())

    def assert_stopped(self, job_id: str) -> None:
        """The unload has ended, with the exact process."""
        watched = run(self.server, "jobs", "watch", job_id)
        assert watched.returncode == 0, watched.stderr
        assert not alive(self.process) and replicas(self.server, self.name) == []
        children = self.job(job_id)["children"]
        assert [child["subject"] for child in children] == [self.replica["process_instance"]]

    def assert_cut(self) -> None:
        error = self.call.end()
        assert (error.status_code, error.json()["error"]["code"]) == (503, "model_unloaded"), error.text
        assert self.server.get("/api/models/" + self.name + "/load-status").status_code == 404, "and loads nothing anew"


def processes_of(instance: str) -> list[psutil.Process]:
    """Processes whose environment names the instance: the group of one model process."""
    found = []
    for process in psutil.process_iter():
        try:
            if instance in process.environ().values() and "backend.py" in " ".join(process.cmdline()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def seconds(job: dict[str, Any]) -> float:
    """How long a job took by the clock of the database."""
    began, ended = (datetime.fromisoformat(job[name]) for name in ("created_at", "finished_at"))
    return (ended - began).total_seconds()


def test_force_ends_an_unload_that_waits_for_a_hung_call(shared_cluster: Cluster, server: Frontend) -> None:
    hung = Hung(shared_cluster, server, "hung-forced")
    waiting = hung.unload()
    assert waiting.status_code == 202, waiting.text
    job_id = waiting.json()["job_id"]
    hung.wait_until_it_waits(job_id)
    forced = hung.unload(force=True)
    assert (forced.status_code, forced.json()["job_id"]) == (202, job_id), "the same unload"
    hung.assert_stopped(job_id)
    hung.assert_cut()
    assert seconds(hung.job(job_id)) < BOUND_S


@pytest.mark.long
def test_a_graceful_unload_ends_by_its_bound_and_a_cancelled_one_cuts_nothing(
    shared_cluster: Cluster, server: Frontend
) -> None:
    kept, bound = Hung(shared_cluster, server, "hung-cancelled"), Hung(shared_cluster, server, "hung-bound")
    kept_id = kept.unload().json()["job_id"]
    cancelled = server.post(f"/api/jobs/{kept_id}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "stopped"), cancelled.text
    bound_id = bound.unload().json()["job_id"]
    bound.wait_until_it_waits(bound_id)
    assert kept.job(kept_id)["state"] == "cancelled"
    bound.assert_stopped(bound_id)
    bound.assert_cut()
    assert seconds(bound.job(bound_id)) >= BOUND_S, "and not before"
    assert alive(kept.process) and not kept.call.over, "the bound of the cancelled unload would have been over first"
    forced = run(server, "models", "unload", kept.name, "--force", "--wait")
    assert forced.returncode == 0, forced.stderr
    assert not alive(kept.process)
    kept.assert_cut()


@pytest.mark.long
def test_force_on_a_node_cuts_a_stream_with_an_error_and_not_with_an_end(
    shared_cluster: Cluster, server: Frontend
) -> None:
    name = model(shared_cluster, server, "hung-stream", "tokens:3", "token_delay:10m")
    assert run(server, "models", "load", name, "--wait").returncode == 0
    stream = chat(server, name, stream=True)
    wait_for("the stream in flight", lambda: replicas(server, name)[0]["in_flight"] == 1)
    (node,) = server.nodes()
    forced = run(server, "models", "unload", name, "--node", node["name"], "--force", "--wait")
    assert forced.returncode == 0, forced.stderr
    text = stream.end().text
    assert "tok1" in text and '"code":"model_unloaded"' in text and '"finish_reason":"' not in text, text


def test_calls_over_a_limit_of_their_model_are_cancelled_with_a_typed_error(
    shared_cluster: Cluster, server: Frontend
) -> None:
    silent = model(
        shared_cluster, server, "hung-first-byte", "hang_in_predict:true", timeouts={"first_byte": "5s", "idle": 0}
    )
    stops = model(shared_cluster, server, "hung-idle", "tokens:3", "token_delay:10m", timeouts={"idle": "5s"})
    completion = {"model": silent, "prompt": "hello"}
    whole = [
        chat(server, silent),
        chat(server, silent, stream=True),
        Call(server, "/v1/completions", completion),
        Call(server, "/v1/completions", {**completion, "stream": True}),
    ]
    stream = chat(server, stops, stream=True)
    for call in whole:
        answer = call.end()
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "first_byte_timeout"), answer.text
        assert "within 5 s" in answer.json()["error"]["message"]
    text = stream.end().text
    assert "tok1" in text and '"code":"idle_timeout"' in text and '"finish_reason":"' not in text, text
    for name in (silent, stops):
        wait_for("nothing in flight", lambda name=name: replicas(server, name)[0]["in_flight"] == 0)  # type: ignore[misc]
        assert "a call ended early" in run(server, "logs", name).stdout, "the call was cancelled at the backend"
