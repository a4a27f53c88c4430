"""Bytes of a model from the frontend's folder to a node's, checked: against `cp` and SHA-256 on the same disk."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests import plain_http
from tests.bench.machine import spread
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand, median_of

MIB = 2**20
ROUNDS = 2


def measure(stand: Stand) -> list[Row]:
    rates, bare = [], []
    for number in range(ROUNDS):
        name = f"bench-staged-{number}"
        file = stand.cluster.models / f"{name}.bin"
        _write(file, stand.length.staged_mib)
        bare.append(stand.length.staged_mib / _copy_and_hash(file, stand.cluster.folder / "copy"))
        _load(stand, name, file)
        rates.append(stand.length.staged_mib / _staging_s(stand, name))
        file.unlink()
    ratios = [ours / copy for ours, copy in zip(rates, bare, strict=True)]
    size = f"{stand.length.staged_mib} MiB"
    return [
        Row(measure="staging", what=f"{size} to a node", value=median_of(rates), unit="MiB/s", spread=spread(rates)),
        Row(measure="staging", what="cp, fsync, SHA-256", value=median_of(bare), unit="MiB/s", spread=spread(bare)),
        Row(
            measure="staging",
            what="staging : cp and SHA-256",
            value=median_of(ratios),
            unit="ratio",
            spread=spread(ratios),
            aim=Aim(at_least=0.5),
            ratio=True,
        ),
    ]


def _load(stand: Stand, name: str, file: Path) -> None:
    stand.cluster.model(name, "fault", "tokens:1", parameters={"model": file.name})
    stand.frontend.wait_for_model(name)
    stand.load(name)


def _write(path: Path, size_mib: int) -> None:
    with path.open("wb") as file:
        for _ in range(size_mib):
            file.write(os.urandom(MIB))


def _copy_and_hash(source: Path, target: Path) -> float:
    """Seconds for what a person would do by hand, with the bytes safely on the disk."""
    began = time.perf_counter()
    subprocess.run(["cp", str(source), str(target)], check=True)
    with target.open("rb+") as file:
        os.fsync(file.fileno())
        hashlib.file_digest(file, "sha256")
    taken = time.perf_counter() - began
    target.unlink()
    return taken


def _staging_s(stand: Stand, model: str) -> float:
    """How long the phase took, as the agent counted it."""
    wanted = {"model": model, "phase": "staging", "outcome": "ok"}
    for connection in psutil.Process(stand.agent().pid).net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            text = plain_http.get(f"http://127.0.0.1:{connection.laddr.port}/metrics", timeout=10).text
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name == "localai_load_phase_seconds_sum" and sample.labels == wanted:
                        return sample.value
    raise RuntimeError(f"the agent has no staging time of {model}")
