"""How much room the filesystem of the models folder has, and which model files lie there."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localai.nodes.holding_rules import HeldFile


def read(models: Path, staged_files: Sequence[HeldFile]) -> dict[str, Any]:
    """``total_disk`` and ``available_disk`` in bytes, and ``staged_files``."""
    usage = shutil.disk_usage(models)
    return {
        "total_disk": usage.total,
        "available_disk": usage.free,
        "staged_files": [file.to_json() for file in staged_files],
    }
