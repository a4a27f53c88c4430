"""A worker whose disk is full, and a worker whose journal was torn: its processes are still known and ended."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest

from tests.acceptance.cluster import Cluster, Frontend, Started, alive, processes_below, wait_for
from tests.small_disk import fill, make_room, small_disk

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


def model_processes(worker: Started) -> list[psutil.Process]:
    found = []
    for process in processes_below(worker.pid):
        try:
            line = process.cmdline()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if any(word.endswith("backend.py") for word in line) and "--addr" in line:
            found.append(process)
    return found


def replicas(frontend: Frontend, model: str) -> list[str]:
    (node,) = frontend.nodes()
    rows = frontend.get(f"/api/nodes/{node['id']}/models").json()
    return [row["state"] for row in rows if row["model_name"] == model]


def start(cluster: Cluster, model: str, *options: str) -> tuple[Frontend, Started]:
    """A frontend, one worker, and a loaded model."""
    cluster.servers()
    frontend = cluster.frontend("frontend")
    worker = cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    cluster.model(model, "fault", *options)
    frontend.wait_for_model(model)
    assert frontend.chat_until_answered(model).status_code == 200
    return frontend, worker


def test_a_process_that_ends_on_a_full_disk_takes_its_replica_along(cluster: Cluster) -> None:
    data = cluster.folder / "worker-data"
    with small_disk(data, 8):
        frontend, worker = start(cluster, "steady")
        fill(data, data / "journal")
        (process,) = model_processes(worker)
        process.kill()
        wait_for("the replica gone", lambda: replicas(frontend, "steady") == [], 60)

        refused = wait_for("an answer that names the cause", lambda: _disk_full(frontend, "steady"), 60)
        assert "No space left" in refused
        make_room(data)
        assert frontend.chat_until_answered("steady").status_code == 200
        assert worker.popen.poll() is None and "Traceback" not in worker.text()

        fill(data, data / "journal")
        worker.popen.kill()
        worker.popen.wait(30)
        again = cluster.worker("worker", frontend)
        wait_for("a worker that starts on a full disk", lambda: again.text().count(" registered ") == 2)
        make_room(data)
        assert frontend.chat_until_answered("steady").status_code == 200
        assert "Traceback" not in again.text()
        again.stop()


def _disk_full(frontend: Frontend, model: str) -> str:
    """The text of an answer whose load failed with `disk_full`."""
    response = frontend.chat(model)
    assert response.status_code in (502, 503), response.text
    return response.text if "disk_full" in json.dumps(response.json()) else ""


def test_a_process_behind_a_torn_record_is_dead_before_the_worker_is_ready(cluster: Cluster) -> None:
    cluster.servers()
    frontend = cluster.frontend("frontend")
    worker = cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    _tear(cluster.folder / "worker-data" / "journal")
    cluster.model("stubborn", "fault", "fork_child:true", "ignore_sigterm:true")
    frontend.wait_for_model("stubborn")
    assert frontend.chat_until_answered("stubborn").status_code == 200
    everything = processes_below(worker.pid)
    _tear(cluster.folder / "worker-data" / "journal")
    worker.popen.kill()
    worker.popen.wait(30)
    orphans = [process for process in everything if alive(process)]
    again = cluster.worker("worker", frontend)
    wait_for("a registered worker", lambda: again.text().count(" registered ") == 2)
    assert orphans and not any(alive(process) for process in orphans)
    assert frontend.chat_until_answered("stubborn").status_code == 200
    assert again.stop() == 0


def _tear(journal: Path) -> None:
    with journal.open("ab") as file:
        file.write(b'{"event": "gone", "inst')


@pytest.mark.long
def test_a_job_that_waits_goes_on_after_the_queue_could_not_be_read(cluster: Cluster) -> None:
    up = cluster.up()
    up.wait_for_nodes(1)
    cluster.model("slow", "fault", "load_delay:3s")
    up.wait_for_model("slow")
    assert up.post("/backend/load", {"model": "slow"}).status_code == 202
    everything = processes_below(up.process.pid)
    up.process.popen.kill()
    up.process.popen.wait(30)
    wait_for("no process left", lambda: not any(alive(process) for process in everything))
    (newest,) = (cluster.state_dir / "valkey/appendonlydir").glob("*.incr.aof")
    with newest.open("ab") as file:
        file.write(b"\0" * 4096)

    again = cluster.up("again")
    wait_for("the load that waited", lambda: again.jobs(kind="model.load", subject="slow", state="succeeded"))
    assert again.chat_until_answered("slow").status_code == 200
    assert again.process.text().count("valkey.set-aside") == 1
