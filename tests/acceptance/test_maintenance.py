"""Loads cancelled, nodes drained and removed, an agent that stands still: on processes as a user starts them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from tests.acceptance.cluster import (
    API_KEY,
    LIMIT_S,
    SCALED_WINDOWS,
    Cluster,
    Frontend,
    Started,
    alive,
    free_port,
    frozen,
    processes_below,
    wait_for,
)
from tests.acceptance.test_cli import Stream, run
from tests.certificates import Authority

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


#: A stop window as short as a kill TTL of 15 s lets it be: one test waits for its end.
WINDOWS = {**SCALED_WINDOWS, "LOCALAI_WORKER_KILL_TTL": "15s", "LOCALAI_STOP_WINDOW": "19s"}


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("maintenance")
    cluster = Cluster(folder / "cluster", {**WINDOWS, "LOCALAI_ENABLE_FAULT_BACKEND": "true"})
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module")
def front(machines: Cluster) -> Frontend:
    """A frontend on servers of its own."""
    machines.servers()
    return machines.frontend("front")


@pytest.fixture
def worker(machines: Cluster, front: Frontend, request: pytest.FixtureRequest) -> Iterator[Started]:
    """The only worker, under a name of its own: what another test did to its node stays with that."""
    name = request.node.name.replace("test_", "")[:40]
    started = machines.worker(name, front)
    node(front, name, "healthy")
    yield started
    if started.popen.poll() is None:
        started.stop()
    front.delete(f"/api/nodes/{node(front, name)['id']}?force=true")


def node(front: Frontend, name: str, status: str = "") -> dict[str, Any]:
    """A node by its name, once it has that status."""

    def found() -> dict[str, Any] | None:
        return next((n for n in front.nodes() if n["name"] == name and (not status or n["status"] == status)), None)

    return wait_for(f"node {name} {status}", found) if status else (found() or {"id": "none"})


def model(cluster: Cluster, front: Frontend, name: str, *options: str) -> str:
    cluster.model(name, "fault", *options)
    front.wait_for_model(name)
    return name


def loading(front: Frontend, name: str) -> str:
    """Begin the load of a model and wait for the phase in which its process starts; the id of its job."""
    assert front.post("/backend/load", {"model": name}).status_code == 202
    status = wait_for(
        f"the load of {name}",
        lambda: (found := front.get(f"/api/models/{name}/load-status").json()).get("state") == "loading" and found,
    )
    return str(status["job_id"])


def model_processes(worker: Started) -> list[psutil.Process]:
    return processes_below(worker.pid)[1:]


def cancel(front: Frontend, name: str, job_id: str) -> Any:
    return front.post(f"/api/models/{name}/load-cancel", {"job_id": job_id})


def rows(front: Frontend, worker: Started) -> dict[str, str]:
    """The replica rows of a worker's node: model and state."""
    at = node(front, worker.name)["id"]
    return {row["model_name"]: row["state"] for row in front.get(f"/api/nodes/{at}/models").json()}


def test_a_cancel_with_a_live_worker_is_200_stopped_and_the_process_group_is_gone(
    machines: Cluster, front: Frontend, worker: Started
) -> None:
    name = model(machines, front, "cancelled", "load_delay:10m", "fork_child:true")
    job_id = loading(front, name)
    worker.child("backend.py", "--addr")  # its phase begins before it runs
    group = model_processes(worker)
    answer = cancel(front, name, job_id)
    assert (answer.status_code, answer.json()["state"]) == (200, "stopped")
    assert not [process for process in group if alive(process)], "stopped means gone"
    assert rows(front, worker) == {}
    assert cancel(front, name, job_id).json()["state"] == "stopped"
    assert run(front, "jobs", "cancel", job_id).stdout == f"model.load {name} is stopped\n"


def test_sc_04_a_frozen_agent_is_202_the_hold_ends_by_its_bound_and_the_thaw_confirms(
    machines: Cluster, front: Frontend, worker: Started
) -> None:
    name = model(machines, front, "frozen-load", "load_delay:10m")
    served = model(machines, front, "frozen-served")
    assert front.chat(served).status_code == 200
    job_id = loading(front, name)
    at = node(front, worker.name)["id"]
    with frozen(psutil.Process(worker.pid)):
        answer = cancel(front, name, job_id)
        body = answer.json()
        assert (answer.status_code, body["state"]) == (202, "stopping")
        assert 1 <= body["retry_after"] <= 19 and answer.headers["Retry-After"] == str(body["retry_after"])
        ended = front.get(f"/api/jobs/{job_id}").json()["hold_until"]
        unload = threading.Thread(target=front.post, args=(f"/api/nodes/{at}/models/unload", {"model_name": served}))
        unload.start()
        wait_for("the mark of the unload", lambda: rows(front, worker)[served] == "unloading")
        assert cancel(front, name, job_id).status_code == 202, "a repeat asks again"
        assert front.get(f"/api/jobs/{job_id}").json()["hold_until"] == ended, "and extends nothing"
        wait_for("the end of the hold", lambda: front.get(f"/api/models/{name}/load-status").status_code == 404, 20)
        shown = front.get(f"/api/jobs/{job_id}").json()
        assert (shown["state"], shown["stop_state"]) == ("cancelled", "pending"), "the end of a hold is no proof"
        assert rows(front, worker) == {name: "unloading", served: "unloading"}, "memory and slot stay taken"
    wait_for("the confirmation", lambda: front.get(f"/api/jobs/{job_id}").json()["stop_state"] == "confirmed")
    wait_for("both rows gone", lambda: rows(front, worker) == {})
    unload.join(LIMIT_S)
    assert model_processes(worker) == []


def test_sc_06_a_drain_meets_a_load_a_stream_and_an_idle_replica_at_once(
    machines: Cluster, front: Frontend, worker: Started
) -> None:
    streaming = model(machines, front, "drain-stream", "tokens:150", "token_delay:100ms")
    idle = model(machines, front, "drain-idle")
    slow = model(machines, front, "drain-load", "load_delay:10m")
    for name in (streaming, idle):
        assert front.chat(name, max_tokens=1).status_code == 200
    job_id = loading(front, slow)
    stream = Stream(front, streaming)
    drained = run(front, "nodes", "drain", worker.name)
    assert drained.returncode == 0 and drained.stdout.startswith(f"Node {worker.name} is draining.\njob ")
    drain = drained.stdout.split()[-1]
    wait_for("load and idle replica gone", lambda: rows(front, worker) == {streaming: "unloading"})
    assert front.get(f"/api/jobs/{job_id}").json()["stop_state"] == "confirmed"
    assert not stream.ended, "the stream goes on"
    wait_for("what it waits for", lambda: "1 request in flight" in str(_drain_of(front, worker).get("message")))
    refused = front.post("/backend/load", {"model": idle})
    wait_for("the refusal of the only node", lambda: _failed(front, refused.json()["job_id"], "is draining"))
    stream.wait()
    assert ("".join(stream.words).split()[-1], stream.ended) == ("tok150", ["done"]), "every word and the end"
    assert run(front, "jobs", "watch", drain).returncode == 0
    assert (rows(front, worker), model_processes(worker)) == ({}, [])

    before = node(front, worker.name)["last_heartbeat"]
    wait_for("a later heartbeat", lambda: node(front, worker.name)["last_heartbeat"] != before)
    assert node(front, worker.name)["status"] == "draining"
    assert worker.stop() == 0
    again = machines.worker(worker.name, front)
    node(front, worker.name, "draining")
    assert run(front, "nodes", "resume", worker.name).returncode == 0
    assert front.chat_until_answered(idle).status_code == 200
    assert again.stop() == 0


def _drain_of(front: Frontend, worker: Started) -> dict[str, Any]:
    return dict(node(front, worker.name).get("drain") or {})


def _failed(front: Frontend, job_id: str, why: str) -> bool:
    job = front.get(f"/api/jobs/{job_id}").json()
    return job["state"] == "failed" and why in job["error"]


def test_a_removed_node_s_worker_ends_with_five_and_its_name_joins_again(
    machines: Cluster, front: Frontend, worker: Started
) -> None:
    name = model(machines, front, "removed-with-node")
    assert front.chat(name).status_code == 200
    processes = model_processes(worker)
    old = node(front, worker.name)
    removed = run(front, "nodes", "remove", worker.name, "--wait")
    assert removed.returncode == 0, removed.stderr
    assert worker.popen.wait(60) == 5
    assert "was removed from the cluster" in worker.text()
    assert not [process for process in processes if alive(process)]
    assert node(front, worker.name)["id"] == "none"
    again = machines.worker(worker.name, front)
    new = node(front, worker.name, "healthy")
    assert (new["id"] != old["id"], new["incarnation"]) == (True, 1)
    assert front.chat_until_answered(name).status_code == 200
    assert again.stop() == 0


def test_unloads_that_race_with_loads_leave_a_model_that_serves_or_nothing(
    machines: Cluster, front: Frontend, worker: Started
) -> None:
    name = model(machines, front, "raced", "load_delay:300ms")
    at = node(front, worker.name)["id"]
    for _ in range(2):
        asking = threading.Thread(target=front.chat, args=(name,), kwargs={"max_tokens": 1})
        asking.start()
        wait_for("a load", lambda: rows(front, worker).get(name) in ("staging", "loading", "loaded"))
        answer = front.post(f"/api/nodes/{at}/models/unload", {"model_name": name})
        assert answer.status_code == 200, answer.text
        asking.join(LIMIT_S)
        wait_for("no row and no process", lambda: rows(front, worker) == {} and model_processes(worker) == [])
        wait_for("the end of the hold", lambda: front.get(f"/api/models/{name}/load-status").status_code == 404)


def test_lj_11_a_load_is_listed_and_cancelled_by_a_frontend_that_was_started_again(
    machines: Cluster, front: Frontend, worker: Started
) -> None:
    name = model(machines, front, "restarted", "load_delay:10m")
    job_id = loading(front, name)
    worker.child("backend.py", "--addr")
    group = model_processes(worker)
    master = front.process.child("gunicorn")
    web = processes_below(master.pid)
    master.kill()
    # A worker goes on answering until it sees that its master is gone.
    wait_for("the web processes gone", lambda: not any(alive(process) for process in web))
    wait_for("the frontend back", front.is_ready)
    listed = wait_for("the job listed", lambda: front.jobs(kind="model.load", subject=name))
    assert [(job["id"], job["cancellable"]) for job in listed] == [(job_id, True)], "a fact of the row"
    cancelled = run(front, "jobs", "cancel", job_id, "--wait")
    assert cancelled.stdout == f"model.load {name} is stopped\n", cancelled.stderr
    wait_for("the process group gone", lambda: not [process for process in group if alive(process)])


@pytest.mark.long
def test_frontend_worker_and_commands_speak_tls_and_show_no_secret_to_ps(
    machines: Cluster, front: Frontend, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    pair, trust = authority.issue("IP:127.0.0.1"), {"LOCALAI_CA_FILE": str(authority.cert)}
    port, token = free_port(), machines.variables["LOCALAI_REGISTRATION_TOKEN"]
    arguments = ["--port", str(port), "--tls-cert", str(pair.cert), "--tls-key", str(pair.key)]
    process = machines.start(
        "secure",
        "run",
        *("--state-dir", str(machines.folder / "secure"), "--registration-token", token, *arguments),
        variables={"LOCALAI_AUTO_APPROVE_NODES": "true", "LOCALAI_MODELS_PATH": str(machines.models)},
    )
    secure = Frontend(process, f"https://127.0.0.1:{port}", machines.folder / "secure" / "logs")
    wait_for("the frontend is ready", lambda: f"ready at {secure.url}" in process.text())
    worker = machines.worker("over-tls", secure, **trust)
    try:
        (machines.models / "tls.bin").write_bytes(b"t" * 1_000_000)
        front.wait_for_model(machines.model("tls", parameters={"model": "tls.bin"}))

        def joined() -> bool:
            assert worker.popen.poll() is None, worker.text()
            return any(one["name"] == "over-tls" for one in front.nodes())

        wait_for("the worker joined", joined)
        answer = run(secure, "chat", "tls", "hello", **trust)
        assert answer.returncode == 0 and answer.stdout.strip(), answer.stderr

        refused = run(secure, "models", "list")
        assert refused.returncode == 3 and "is not trusted" in refused.stderr and "LOCALAI_CA_FILE" in refused.stderr
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/readyz", timeout=30)
        assert "Traceback" not in (secure.logs / "web.log").read_text()

        lines = [" ".join(one.cmdline()) for started in (process, worker) for one in processes_below(started.pid)]
        assert any("--registration-token *" in line for line in lines), lines
        hidden = [API_KEY, token, *(machines.variables[name] for name in machines.variables if name.endswith("_URL"))]
        assert not [line for line in lines for secret in hidden if secret in line]
    finally:
        worker.stop()
        process.stop()
        for node in front.nodes():
            if node["name"] == "over-tls":
                front.delete(f"/api/nodes/{node['id']}")
