"""What a running agent reports to hold: files as they arrive, and memory of a process that has mapped its weights."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from localai.jobs.operation_rules import OpState, StagedFile
from tests.integration.worker_agent.conftest import Rig, faults
from tests.integration.worker_agent.test_staging import MIB, content, folder_of, staged
from worker_agent.telemetry.model_memory import ModelMemoryReading

pytestmark = pytest.mark.integration


def test_files_are_reported_while_they_arrive_and_once_they_are_whole(rig: Rig) -> None:
    main = rig.frontend.put_file("weights.gguf", content(8 * MIB))
    rig.frontend.pauses["weights.gguf"] = (4 * MIB, 2.0)
    wanted = rig.run(staged(main))

    def bytes_reported() -> list[int]:
        """Of the file, in each list that was sent."""
        sent = [body["staged_files"] for body in rig.frontend.heartbeats if "staged_files" in body]
        return [file["bytes"] for files in sent for file in files if file["path"] == "staged/weights.gguf"]

    rig.frontend.wait("a part of the file", lambda: any(0 < size < 8 * MIB for size in bytes_reported()))
    rig.frontend.wait_report(wanted, OpState.READY)
    rig.frontend.wait("the whole file", lambda: 8 * MIB in bytes_reported())
    last: dict[str, Any] = [body for body in rig.frontend.heartbeats if "staged_files" in body][-1]
    assert last["staged_files"] == [{"path": "staged/weights.gguf", "sha256": main.sha256[:12], "bytes": 8 * MIB}]
    assert last["available_disk"] > 0, "with the free disk that they were counted in"
    beats = len(rig.frontend.heartbeats)
    rig.frontend.wait("three more beats", lambda: len(rig.frontend.heartbeats) > beats + 2)
    assert not any("staged_files" in body for body in rig.frontend.heartbeats[beats + 1 :]), "nothing changed"


def test_weights_that_a_process_has_mapped_are_reported_as_its_memory(rig: Rig) -> None:
    size, digest = 96 * MIB, hashlib.sha256()
    folder = folder_of(rig, staged(StagedFile(path="weights.bin", size=1, sha256="", sources=())))
    folder.mkdir(parents=True)
    with open(folder / "weights.bin", "wb") as file:
        for seed in range(size // (4 * MIB)):
            piece = content(4 * MIB, seed)
            digest.update(piece)
            file.write(piece)
    main = StagedFile(path="weights.bin", size=size, sha256=digest.hexdigest(), sources=())
    wanted = rig.run(staged(main, model_options=faults("map_model:true")))
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    instance = ready.process_instance or ""
    rig.frontend.wait(
        "a beat with the memory of the process",
        lambda: any(body["process_memory"].get(instance, 0) > size for body in rig.frontend.heartbeats),
    )
    reading = ModelMemoryReading()
    reading.groups = rig.agent.supervisor.groups
    found = reading()
    assert size < found.mapped < found.resident[instance]
