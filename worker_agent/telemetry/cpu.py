"""How busy the processors are."""

from __future__ import annotations

import os

import psutil


def read() -> dict[str, float | int]:
    """``cpu_logical_cores``, ``cpu_usage_percent`` since the last reading (0 at the first), ``cpu_load_1``."""
    cores = psutil.cpu_count(logical=True)
    if cores is None:
        raise OSError("the system does not say how many cores it has")
    return {
        "cpu_logical_cores": cores,
        "cpu_usage_percent": psutil.cpu_percent(interval=None),
        "cpu_load_1": os.getloadavg()[0],
    }
