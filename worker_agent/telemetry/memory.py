"""How much memory the machine, or the container around this agent, has and has free."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psutil

from worker_agent.telemetry import cgroups
from worker_agent.telemetry.model_memory import ModelMemory

NO_MODELS = ModelMemory({}, 0)


def read(models: ModelMemory = NO_MODELS) -> dict[str, Any]:
    """``total_ram``, ``available_ram`` and ``process_memory``, in bytes.

    Weights that model processes have mapped are page cache, which the kernel and control groups call available. They
    are in use: without them a model reads its disk for each word.
    """
    memory = psutil.virtual_memory()
    total, available = within(memory.total, memory.available, cgroups.memory_groups())
    return {
        "total_ram": total,
        "available_ram": max(0, available - models.mapped),
        "process_memory": models.resident,
    }


def within(total: int, available: int, groups: Iterable[cgroups.MemoryGroup]) -> tuple[int, int]:
    """What remains of the machine's memory within the limits of groups. The smallest headroom counts."""
    for group in groups:
        total, available = min(total, group.limit), min(available, group.free)
    return total, available
