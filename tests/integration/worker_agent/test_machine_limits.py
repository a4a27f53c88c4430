"""What an agent would say of its machine inside a real control group with a limit and a quota."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.control_groups import limited

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


@pytest.fixture
def groups() -> Iterator[list[Path]]:
    """Groups of 512 MiB and 3 processors."""
    with limited(memory=LIMIT, processors=3) as made:
        yield made


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
