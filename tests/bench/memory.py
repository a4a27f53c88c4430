"""What each process of one machine holds, at the end of a run."""

from __future__ import annotations

import contextlib

import psutil

from tests.bench.report import Row
from tests.bench.stand import Stand

#: Words of a command line, and what people call the process; the first that fits.
_NAMES = (
    ("gunicorn", "web"),
    ("tasks.control", "control"),
    ("worker_agent.main", "agent"),
    ("backend.py", "model process"),
    ("postgres", "postgresql"),
    ("nats-server", "nats"),
    ("valkey", "valkey"),
    ("localai", "supervisor"),
)


def measure(stand: Stand) -> list[Row]:
    """Proportional sizes: pages that several processes share count once in all."""
    sizes: dict[str, list[float]] = {}
    for process in psutil.Process(stand.frontend.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            name = _name(" ".join(process.cmdline()))
            sizes.setdefault(name, []).append(process.memory_full_info().pss / 2**20)
    supervisor = psutil.Process(stand.frontend.process.pid).memory_full_info().pss / 2**20
    rows = [Row(measure="memory", what="supervisor", value=supervisor, unit="MiB")]
    for name, values in sorted(sizes.items()):
        what = f"{name}, {len(values)} processes" if len(values) > 1 else name
        rows.append(Row(measure="memory", what=what, value=sum(values), unit="MiB"))
    return rows


def _name(line: str) -> str:
    return next((name for word, name in _NAMES if word in line), "other")
