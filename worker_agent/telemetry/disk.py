"""How much room the filesystem of the models folder has."""

from __future__ import annotations

import shutil
from pathlib import Path


def read(models: Path) -> dict[str, int]:
    """``total_disk`` and ``available_disk`` in bytes."""
    usage = shutil.disk_usage(models)
    return {"total_disk": usage.total, "available_disk": usage.free}
