"""How much memory the machine, or the container around this agent, has and has free."""

from __future__ import annotations

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def read(cgroup: Path = _CGROUP) -> dict[str, int]:
    """``total_ram`` and ``available_ram`` in bytes."""
    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    limit, used = _number(cgroup / "memory.max"), _number(cgroup / "memory.current")
    if limit is not None and used is not None and limit < total:
        total, available = limit, min(available, max(0, limit - used))
    return {"total_ram": total, "available_ram": available}


def _number(path: Path) -> int | None:
    """The number in a control file; None when there is none, or no limit."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
