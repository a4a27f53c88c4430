"""Control groups with limits, for tests that may make them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from localai.ids import new_id
from worker_agent.telemetry import cgroups


@contextmanager
def limited(*, memory: int, processors: int | None = None) -> Iterator[list[Path]]:
    """Groups below this process's own one; a process joins by its pid in the ``cgroup.procs`` of each.

    Skips, and says why, where this user may not make control groups.
    """
    made: list[Path] = []
    try:
        limits = {"memory.limit_in_bytes": str(memory), "memory.max": str(memory)}
        made.append(_made("memory", limits))
        if processors is not None:
            made.append(
                _made("cpu", {"cpu.cfs_quota_us": f"{processors}00000", "cpu.max": f"{processors}00000 100000"})
            )
        if not any((made[0] / name).exists() for name in limits):
            raise OSError("the memory controller is not delegated")
    except OSError as error:
        _remove(made)
        pytest.skip(f"needs the right to make control groups (root): {error}")
    try:
        yield made
    finally:
        _remove(made)


def _made(controller: str, limits: Mapping[str, str]) -> Path:
    """A group, of whichever version serves the controller here. Raises OSError."""
    parent = _own(controller) or _own("")
    if parent is None:
        raise OSError(f"no group of {controller or 'version 2'} that this user may change")
    folder = parent / f"localai-test-{new_id()[:8]}"
    folder.mkdir()
    try:
        for name, value in limits.items():
            if (folder / name).exists():
                (folder / name).write_text(value)
    except OSError:
        folder.rmdir()
        raise
    return folder


def _own(controller: str) -> Path | None:
    folder = next(cgroups.folders(cgroups.ROOT, controller), None)
    return folder if folder is not None and os.access(folder, os.W_OK) else None


def _remove(groups: list[Path]) -> None:
    """Remove groups. Processes that a failed test left go to the group above: one that is not empty stays."""
    for folder in groups:
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (folder.parent / "cgroup.procs").write_text(pid)
        with suppress(OSError):
            folder.rmdir()
