"""How much memory the machine, or the container around this agent, has and has free."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

from worker_agent.telemetry import cgroups


def read(root: Path = cgroups.ROOT) -> dict[str, int]:
    """``total_ram`` and ``available_ram`` in bytes."""
    memory = psutil.virtual_memory()
    total, available = within(memory.total, memory.available, cgroups.memory_groups(root))
    return {"total_ram": total, "available_ram": available}


def within(total: int, available: int, groups: Iterable[cgroups.MemoryGroup]) -> tuple[int, int]:
    """What remains of the machine's memory within the limits of groups. The smallest headroom counts."""
    for group in groups:
        total, available = min(total, group.limit), min(available, group.free)
    return total, available
