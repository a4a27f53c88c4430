"""How quiet is the machine, before, between and after the measures?"""

from __future__ import annotations

import os
import platform
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

#: CPU of others, as a share of the machine, above which nothing is called clean.
FOREIGN_LIMIT = 0.10
#: Spread of one and the same loop of arithmetic, (slowest - fastest) / median.
LOOP_LIMIT = 0.20
_LOOP = 200_000
#: What a measure leaves behind ends within this: its processes, and the server's own cleaning up.
_SETTLE_S = 1.0


@dataclass
class Quiet:
    """What was seen of others, and of the machine itself."""

    #: The processes that are ours, at the moment of a look.
    ours: Callable[[], Sequence[psutil.Process]]
    foreign: list[float] = field(default_factory=list)
    loops_ms: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def look(self, seconds: float = 1.0) -> None:
        """Watch for a moment in which nothing is measured."""
        self.loads.append(os.getloadavg()[0])
        threading.Event().wait(_SETTLE_S)
        busy, mine, began = _busy_s(), self._own_s(), time.monotonic()
        threading.Event().wait(seconds)
        wall = time.monotonic() - began
        others = (_busy_s() - busy) - max(0.0, self._own_s() - mine)
        self.foreign.append(max(0.0, others) / (wall * (os.cpu_count() or 1)))
        self.loops_ms.append(_loop_ms())

    def _own_s(self) -> float:
        total = 0.0
        for process in self.ours():
            try:
                times = process.cpu_times()
                total += times.user + times.system
            except psutil.Error:
                continue
        return total

    @property
    def loop_spread(self) -> float:
        return spread(self.loops_ms)

    def problems(self) -> list[str]:
        """Why the figures of this run are not clean."""
        found = []
        if max(self.foreign) > FOREIGN_LIMIT:
            found.append(
                f"other processes used up to {max(self.foreign):.0%} of the machine (median "
                f"{statistics.median(self.foreign):.0%}); the limit is {FOREIGN_LIMIT:.0%}"
            )
        if self.loop_spread > LOOP_LIMIT:
            found.append(
                f"one and the same loop took {min(self.loops_ms):.1f} to {max(self.loops_ms):.1f} ms, a spread of "
                f"{self.loop_spread:.0%}; the limit is {LOOP_LIMIT:.0%}"
            )
        return found


def spread(values: Sequence[float]) -> float:
    """(largest - smallest) / median; 0 of one value."""
    middle = statistics.median(values)
    return (max(values) - min(values)) / middle if middle else 0.0


def description() -> dict[str, object]:
    """The machine in a few words."""
    cpu = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in _lines(cpu) if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "cpu": names[0] if names else platform.processor(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _loop_ms() -> float:
    """The median of five, so that one interruption does not count."""
    taken = []
    for _ in range(5):
        began, total = time.perf_counter(), 0
        for number in range(_LOOP):
            total += number
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)
