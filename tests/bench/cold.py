"""A cold load: how much of it is ours, and not the model's or its process's?"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from protos import backend_pb2, backend_pb2_grpc
from tests.acceptance.cluster import free_port
from tests.bench.machine import spread
from tests.bench.report import Aim, Row
from tests.bench.stand import Stand, median_of

LOAD_S = 2.0


def measure(stand: Stand) -> list[Row]:
    """One first request after the other, each for a model of its own; the backend is installed already."""
    totals, parts = [], []
    names = [f"bench-cold-{number}" for number in range(stand.length.cold_loads)]
    for name in names:
        stand.cluster.model(name, "fault", "tokens:1", f"load_delay:{LOAD_S:g}s")
    for name in names:
        stand.frontend.wait_for_model(name)
    for name in names:
        began = time.perf_counter()
        response = stand.frontend.chat(name)
        totals.append(time.perf_counter() - began)
        if response.status_code != 200:
            raise RuntimeError(f"a cold load failed: {response.text}")
        parts.append(_steps(stand, name))
    bare = [_bare_start(stand) for _ in names]
    ours = [(total - LOAD_S - median_of(bare)) * 1000 for total in totals]
    rows = [
        _row("total - load_delay", [(total - LOAD_S) * 1000 for total in totals]),
        _row("of it the process alone: exec to the first Health", [value * 1000 for value in bare]),
        _row("control-plane share: the rest", ours, Aim(at_most=300)),
    ]
    for step in parts[0]:
        rows.append(_row(f"step {step}", [part[step] for part in parts]))
    return rows


def _row(what: str, values: list[float], aim: Aim | None = None) -> Row:
    return Row(measure="cold load", what=what, value=median_of(values), unit="ms", spread=spread(values), aim=aim)


def _steps(stand: Stand, model: str) -> dict[str, float]:
    """Milliseconds between the events of the load, by the database clock."""
    (job,) = stand.frontend.jobs(kind="model.load", subject=model)
    events = stand.frontend.get(f"/api/jobs/{job['id']}").json()["events"]
    at = {event["event"]: _moment(event["at"]) for event in events}
    steps = {}
    before = _moment(job["created_at"])
    for name in ("taken", "placed", "claimed", "operation_ready", "succeeded"):
        steps[f"to {name}"] = (at[name] - before).total_seconds() * 1000
        before = at[name]
    return steps


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _bare_start(stand: Stand) -> float:
    """Seconds from exec to the first answer of a backend process that nobody manages."""
    folder = next(path.parent for path in (stand.state / "worker").rglob("backend.py") if path.parent.name == "fault")
    port = free_port()
    began = time.perf_counter()
    popen = subprocess.Popen(
        [str(Path(folder) / "run.sh"), "--addr", f"127.0.0.1:{port}"],
        env={**os.environ, "LOCALAI_PYTHON": sys.executable},
        stderr=subprocess.DEVNULL,
    )
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=_SOON) as channel:
            stub: Any = backend_pb2_grpc.BackendStub(channel)
            stub.Health(backend_pb2.HealthMessage(), timeout=30, wait_for_ready=True)
        return time.perf_counter() - began
    finally:
        popen.terminate()
        popen.wait(30)


_SOON = [
    ("grpc.initial_reconnect_backoff_ms", 10),
    ("grpc.min_reconnect_backoff_ms", 10),
    ("grpc.max_reconnect_backoff_ms", 20),
]
