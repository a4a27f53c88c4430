"""What an agent would say of its machine inside a real control group with a limit and a quota."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from localai.ids import new_id
from worker_agent.telemetry import cgroups

pytestmark = pytest.mark.integration
MIB = 1024**2
LIMIT = 512 * MIB
#: Joins its groups, fills the page cache with a file, and says what it reads of the machine.
CHILD = """
import json, os, sys
for group in sys.argv[2:]:
    open(os.path.join(group, "cgroup.procs"), "w").write(str(os.getpid()))
with open(sys.argv[1], "rb") as file:
    while file.read(1 << 20):
        pass
from worker_agent.telemetry import cgroups, cpu, memory
quota = cgroups.cpu_quota()
(group,) = cgroups.memory_groups()
print(json.dumps({
    "charged": group.charged,
    "quota": quota,
    "threads": cpu.default_threads(64, quota),
    **memory.read(),
}))
"""


def _own_folder(controller: str) -> Path | None:
    """The folder of this process's group that a subgroup with the controller can be made in."""
    for folder in cgroups.folders(cgroups.ROOT, controller):
        return folder if os.access(folder, os.W_OK) else None
    return None


def _made(controller: str, limits: dict[str, str]) -> Path:
    """A subgroup with limits, of whichever version serves the controller here. Raises OSError."""
    parent = _own_folder(controller) or _own_folder("")
    if parent is None:
        raise OSError(f"no group of {controller} that this user may change")
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


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """A group of 512 MiB and a group of 3 processors. They are one where both controllers are of version 2."""
    made: list[Path] = []
    try:
        made.append(_made("memory", {"memory.limit_in_bytes": str(LIMIT), "memory.max": str(LIMIT)}))
        made.append(_made("cpu", {"cpu.cfs_quota_us": "300000", "cpu.max": "300000 100000"}))
        if not any((made[0] / name).exists() for name in ("memory.limit_in_bytes", "memory.max")):
            raise OSError("the memory controller is not delegated")
    except OSError as error:
        for folder in made:
            folder.rmdir()
        pytest.skip(f"needs the right to make control groups (root): {error}")
    yield made
    for folder in made:
        with suppress(OSError):
            folder.rmdir()


def test_page_cache_of_a_limited_group_is_free_and_its_quota_bounds_threads(groups: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "weights"
    with open(file, "wb") as out:
        for _ in range(400):
            out.write(os.urandom(4096) * 256)
        out.flush()
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # the child's group is to be charged for it
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(file), *map(str, groups)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["total_ram"] == LIMIT
    assert said["charged"] > 380 * MIB, "the file is charged to the group"
    assert said["available_ram"] > 380 * MIB, "and the kernel takes it back before it refuses memory"
    assert (said["quota"], said["threads"]) == (3.0, 3)
