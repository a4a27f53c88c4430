"""How many processors this agent may use, and how busy those of the machine are."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

from worker_agent.telemetry import cgroups

#: Time between two samples at least: the counters of the kernel move in steps of 10 ms.
SAMPLE_LEAST_S = 0.1


class CpuReading:
    """Samples of the processors. The first one is compared with the moment at which this was made.

    psutil's own percentage begins again with 0 on every thread that asks for it.
    """

    def __init__(
        self,
        *,
        times: Callable[[], Any] = psutil.cpu_times,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._times, self._clock, self._wait = times, clock, wait
        self._lock = threading.Lock()
        self._before, self._at = times(), clock()

    def __call__(self) -> dict[str, float | int]:
        """``cpu_logical_cores``, ``cpu_usage_percent`` since the last sample, ``cpu_load_1``. Raises OSError."""
        return {
            "cpu_logical_cores": usable_cores(affinity(), cgroups.cpu_quota()),
            "cpu_usage_percent": self._usage(),
            "cpu_load_1": os.getloadavg()[0],
        }

    def _usage(self) -> float:
        with self._lock:
            self._wait_for_a_step()
            before, self._before = self._before, self._times()
            self._at = self._clock()
            return busy_percent(before, self._before)

    def _wait_for_a_step(self) -> None:
        missing = SAMPLE_LEAST_S - (self._clock() - self._at)
        if missing > 0:
            self._wait(missing)


def busy_percent(before: Any, now: Any) -> float:
    """The busy share between two ``psutil.cpu_times``, 0 to 100. Raises OSError where no time lies between them."""
    passed: dict[str, float] = {name: max(0.0, getattr(now, name) - getattr(before, name)) for name in now._fields}
    # Linux counts the time of guests in user and nice as well.
    whole = sum(passed.values()) - passed.get("guest", 0.0) - passed.get("guest_nice", 0.0)
    if whole <= 0:
        raise OSError("no time has passed on the processors since the last sample")
    idle = passed["idle"] + passed.get("iowait", 0.0)
    return round(min(100.0, max(0.0, 100.0 * (1.0 - idle / whole))), 1)


def affinity() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_cores(affinity: int, quota: float | None) -> int:
    """Processors that work of this process can keep busy; a quota that ends within one counts it whole."""
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))


def default_threads(affinity: int, quota: float | None) -> int:
    """Threads of a model process whose config names none: half of the processors, since hyper-threads share a core.

    A quota is time and knows no hyper-threads: more threads than it would be stopped in the middle of each period.
    """
    half = max(1, affinity // 2)
    return half if quota is None else max(1, min(half, int(quota)))
