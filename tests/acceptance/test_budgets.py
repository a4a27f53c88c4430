"""How long a load may take, on real processes with small windows: staging, hashing and LoadModel at their bounds."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from localai.clock import boottime
from tests.acceptance.cluster import Cluster, Frontend, frozen, wait_for
from tests.acceptance.file_relay import FileRelay

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

MIB, GIB = 1024**2, 1024**3
STALL_S, BASE_S = 3.0, 6.0
WINDOWS = {
    "LOCALAI_OPERATION_REPORT_INTERVAL": "250ms",
    "LOCALAI_STAGING_STALL_WINDOW": "3s",
    # The base budget: 3 s + 2 s + 1 s.
    "LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT": "3s",
    "LOCALAI_NATS_MODEL_LOAD_TIMEOUT": "2s",
    "LOCALAI_MODEL_LOAD_SLACK": "1s",
    "LOCALAI_MODEL_LOAD_LEAST_BUDGET": "4s",
}
#: How long after its window a stall may be seen: a report, a sweep, and the busy machine.
SEEN_S = 6.0


@pytest.fixture(scope="module")
def frontend(shared_cluster: Cluster) -> Iterator[Frontend]:
    shared_cluster.variables.update(WINDOWS)
    shared_cluster.servers()
    yield shared_cluster.frontend("front")


@pytest.fixture(scope="module")
def relay(frontend: Frontend) -> Iterator[FileRelay]:
    relay = FileRelay(frontend.url)
    try:
        yield relay
    finally:
        relay.close()


@pytest.fixture(scope="module")
def agent(shared_cluster: Cluster, frontend: Frontend, relay: FileRelay) -> Iterator[psutil.Process]:
    """The one worker; it reaches the frontend through the relay only."""
    worker = shared_cluster.worker("worker", Frontend(frontend.process, relay.url, frontend.logs))
    frontend.wait_for_nodes(1)
    yield psutil.Process(worker.pid)


@pytest.fixture(scope="module")
def sparse(shared_cluster: Cluster) -> Path:
    """A file of zeros that takes no disk and so long to hash that no stall window could pass over it unseen."""
    probe, began = hashlib.sha256(), boottime()
    for _ in range(64):
        probe.update(bytes(MIB))
    bytes_per_s = 64 * MIB / (boottime() - began)
    size = int(min(max(bytes_per_s * STALL_S * 1.5, GIB), 8 * GIB))
    return zeros(shared_cluster.models / "zeros.bin", size)


@pytest.fixture(autouse=True)
def flowing(relay: FileRelay) -> Iterator[None]:
    yield
    relay.flows.set()
    relay.bytes_per_s = None


def zeros(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


def random_bytes(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def begin(cluster: Cluster, frontend: Frontend, name: str, file: Path, *options: str) -> str:
    """Ask for the load of a model whose only file this is; the id of its job."""
    cluster.model(name, "fault", *options, parameters={"model": file.name})
    frontend.wait_for_model(name)
    response = frontend.post("/backend/load", {"model": name})
    assert response.status_code == 202, response.text
    return str(response.json()["job_id"])


def job(frontend: Frontend, job_id: str) -> dict[str, Any]:
    return dict(frontend.get(f"/api/jobs/{job_id}").json())


def ended(frontend: Frontend, job_id: str) -> dict[str, Any]:
    return wait_for(
        "the end of the load", lambda: (row := job(frontend, job_id))["state"] not in ("queued", "running") and row
    )


def staged_bytes(frontend: Frontend, model: str) -> int:
    status = frontend.get(f"/api/models/{model}/load-status").json()
    return int(status.get("bytes_sent", 0)) if status.get("state") == "staging" else 0


def test_lj_03_staging_outlasts_the_base_budget_while_bytes_arrive(
    shared_cluster: Cluster, frontend: Frontend, agent: psutil.Process, relay: FileRelay
) -> None:
    file = random_bytes(shared_cluster.models / "slow.bin", 8 * MIB)
    relay.bytes_per_s = MIB
    began = boottime()
    row = ended(frontend, begin(shared_cluster, frontend, "slow", file))
    assert row["state"] == "succeeded", row
    assert boottime() - began > BASE_S + 1
    assert frontend.chat("slow").status_code == 200


def test_lj_03_a_frozen_source_ends_the_load_within_the_stall_window(
    shared_cluster: Cluster, frontend: Frontend, agent: psutil.Process, relay: FileRelay
) -> None:
    file = random_bytes(shared_cluster.models / "cut-off.bin", 4 * MIB)
    relay.bytes_per_s = MIB
    job_id = begin(shared_cluster, frontend, "cut-off", file)
    wait_for("bytes on their way", lambda: staged_bytes(frontend, "cut-off"))
    relay.flows.clear()
    frozen_at = boottime()
    row = ended(frontend, job_id)
    assert STALL_S - 0.5 < boottime() - frozen_at < STALL_S + SEEN_S
    assert (row["state"], row["error_cause"]) == ("failed", "staging_stalled")
    said = frontend.get("/api/models/cut-off/load-status").json()["last_error"]
    assert "nothing arrived for 3 s (LOCALAI_STAGING_STALL_WINDOW)" in said
    assert f"of {4 * MIB}" in said


@pytest.mark.long
def test_lj_03_a_frozen_receiver_ends_the_load_within_the_stall_window(
    shared_cluster: Cluster, frontend: Frontend, agent: psutil.Process, relay: FileRelay
) -> None:
    file = random_bytes(shared_cluster.models / "deaf.bin", 4 * MIB)
    relay.bytes_per_s = MIB
    job_id = begin(shared_cluster, frontend, "deaf", file)
    wait_for("bytes on their way", lambda: staged_bytes(frontend, "deaf"))
    with frozen(agent):
        frozen_at = boottime()
        row = ended(frontend, job_id)
        assert boottime() - frozen_at < STALL_S + SEEN_S
    assert (row["state"], row["error_cause"]) == ("failed", "staging_stalled")
    said = row["error"]
    assert "staging moved nothing for 3 s" in said and "LOCALAI_STAGING_STALL_WINDOW" in said
    wait_for("the stop confirmed", lambda: job(frontend, job_id)["stop_state"] == "confirmed")


def present(cluster: Cluster, model: str, sparse: Path) -> Path:
    """The same file where an earlier load of the model left it: nothing to transfer, everything to hash."""
    return zeros(cluster.folder / "worker-data" / "models" / model / sparse.name, sparse.stat().st_size)


@pytest.mark.long
def test_lj_04_hashing_what_is_present_is_progress_although_no_byte_arrives(
    shared_cluster: Cluster, frontend: Frontend, agent: psutil.Process, relay: FileRelay, sparse: Path
) -> None:
    there = present(shared_cluster, "hashed", sparse)
    file = there.stat().st_ino
    relay.flows.clear()  # a transfer would stall
    job_id = begin(shared_cluster, frontend, "hashed", sparse)
    wait_for("hashing", lambda: staged_bytes(frontend, "hashed"))
    began = boottime()
    wait_for("the end of hashing", lambda: job(frontend, job_id)["phase"] != "staging")
    assert boottime() - began > STALL_S, "too quick to tell"
    assert ended(frontend, job_id)["state"] == "succeeded"
    assert there.stat().st_ino == file, "it was not received anew"


@pytest.mark.long
def test_lj_04_a_cancel_while_hashing_is_cancelled_and_no_file_is_touched_after(
    shared_cluster: Cluster, frontend: Frontend, agent: psutil.Process, sparse: Path
) -> None:
    present(shared_cluster, "unwanted", sparse)
    job_id = begin(shared_cluster, frontend, "unwanted", sparse)
    wait_for("hashing", lambda: staged_bytes(frontend, "unwanted"))
    assert frontend.post(f"/api/jobs/{job_id}/cancel").status_code in (200, 202)
    row = wait_for("the stop confirmed", lambda: (now := job(frontend, job_id))["stop_state"] == "confirmed" and now)
    assert row["state"] == "cancelled"
    assert row["bytes_done"] < sparse.stat().st_size
    threading.Event().wait(1.0)  # four reports
    later = job(frontend, job_id)
    assert (later["state"], later["bytes_done"], later["file_index"]) == ("cancelled", row["bytes_done"], 1)
    after = [event["event"] for event in later["events"]]
    assert set(after[after.index("cancelled") + 1 :]) <= {"stop_sent", "stop_confirmed"}, after
    known = shared_cluster.folder / "worker-data" / "models" / ".digests.json"
    assert not known.exists() or "/unwanted/" not in known.read_text()


def test_lj_05_a_load_over_its_budget_names_budget_size_and_setting(
    shared_cluster: Cluster, frontend: Frontend, agent: psutil.Process
) -> None:
    file = zeros(shared_cluster.models / "two-gib.bin", 2 * GIB)
    assert file.stat().st_blocks == 0, "it takes no disk, and counts by its length"
    present(shared_cluster, "too-slow", file)
    row = ended(frontend, begin(shared_cluster, frontend, "too-slow", file, "load_delay:30s"))
    assert (row["state"], row["error_cause"]) == ("failed", "load_timeout")
    said = frontend.get("/api/models/too-slow/load-status").json()["last_error"]
    assert said.startswith(
        "LoadModel took longer than its budget of 2 s "
        "(pinned by LOCALAI_NATS_MODEL_LOAD_TIMEOUT; 2.00 GiB would give 340 s)"
    )
