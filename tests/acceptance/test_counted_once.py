"""Disk and memory of a node are counted once: a small disk takes its model again, mapped weights are not free memory."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cluster import Cluster, Frontend, Started, wait_for
from tests.control_groups import limited

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
MIB = 1024**2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 160 MiB."""
    folder = tmp_path / "small-disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160m", "localai-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a file system (root): {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def weights(cluster: Cluster, name: str, size: int) -> str:
    """A file in the models folder of the frontends."""
    cluster.models.mkdir(parents=True, exist_ok=True)
    with open(cluster.models / name, "wb") as file:
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
    return name


def load(front: Frontend, model: str) -> dict[str, Any]:
    """The load of a model at its end."""
    answer = front.chat(model)
    job = front.jobs(kind="model.load", subject=model)[0]
    assert (answer.status_code == 200) == (job["state"] == "succeeded"), (answer.text, job)
    return job


def unload(front: Frontend, model: str) -> None:
    assert front.post("/backend/shutdown", {"model": model}).status_code in (200, 202)
    wait_for(f"{model} unloaded", lambda: all(node["model_count"] == 0 for node in front.nodes()))


def beaten(front: Frontend) -> None:
    """Wait until a heartbeat later than now was written."""
    before = front.nodes()[0]["last_heartbeat"]
    wait_for("a written heartbeat", lambda: front.nodes()[0]["last_heartbeat"] > before)
    before = front.nodes()[0]["last_heartbeat"]
    wait_for("another one", lambda: front.nodes()[0]["last_heartbeat"] > before)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with open(disk / "filler", "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.long
def test_a_staged_model_is_loaded_again_on_a_disk_without_room_for_a_second_copy(
    cluster: Cluster, small_disk: Path
) -> None:
    for name in ("first", "second"):
        cluster.model(name, parameters={"model": weights(cluster, f"{name}.bin", 100 * MIB)})
    cluster.servers()
    front = cluster.frontend("front")
    variables = {"LOCALAI_MODELS_PATH": str(small_disk)}
    worker = cluster.worker("small", front, **variables)
    front.wait_for_nodes(1)
    assert load(front, "first")["state"] == "succeeded"
    beaten(front)
    assert front.nodes()[0]["available_disk"] < 100 * MIB, "there is no room for a second copy"
    unload(front, "first")
    assert load(front, "first")["state"] == "succeeded"
    refused = load(front, "second")
    assert refused["error_cause"] == "no_room" and "free on the models filesystem" in refused["error"]
    unload(front, "first")
    fill(small_disk)
    beaten(front)
    assert front.nodes()[0]["available_disk"] == 0
    assert load(front, "first")["state"] == "succeeded", "also on a full disk: no byte is still to come"
    unload(front, "first")
    worker.stop()
    cluster.worker("small", front, **variables)
    wait_for("the next incarnation", lambda: front.nodes()[0]["incarnation"] == 2)
    assert load(front, "first")["state"] == "succeeded", "an agent that starts reports what it has"


@pytest.mark.long
def test_a_model_is_not_loaded_into_the_memory_that_another_has_mapped(cluster: Cluster) -> None:
    for name in ("first", "second"):
        file = weights(cluster, f"{name}.bin", 300 * MIB)
        cluster.model(name, "fault", "map_model:true", parameters={"model": file})
    cluster.servers()
    front = cluster.frontend("front")
    with limited(memory=640 * MIB) as groups:
        worker: Started = cluster.worker("limited", front)
        for group in groups:
            (group / "cgroup.procs").write_text(str(worker.pid))
        front.wait_for_nodes(1)
        beaten(front)
        (node,) = front.nodes()
        assert node["total_ram"] == 640 * MIB
        assert load(front, "first")["state"] == "succeeded"
        beaten(front)
        refused = load(front, "second")
        assert refused["error_cause"] == "no_room" and "of memory, has" in refused["error"], refused
        assert front.chat("first").status_code == 200
        unload(front, "first")
        beaten(front)
        wait_for("the hold of the refused load over", lambda: front.chat("second").status_code == 200)
        worker.stop()
