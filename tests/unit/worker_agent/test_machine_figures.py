"""What the agent reads of memory, processors and control groups, on made trees of control files."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from worker_agent.telemetry import cgroups, cpu, memory

pytestmark = pytest.mark.unit
GIB = 1024**3

V2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = (
    "30 23 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "31 30 0:28 {root} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "32 30 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "33 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
UNLIMITED_V1 = "9223372036854771712\n"


def tree(root: Path, groups: str, mounts: str, files: Mapping[str, str]) -> Path:
    """A made file system with /proc/self and the given files below /sys/fs/cgroup."""
    for name, text in {
        "proc/self/cgroup": groups,
        "proc/self/mountinfo": mounts,
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    return root


def stat(inactive: int, active: int = 0, prefix: str = "") -> str:
    return f"anon 5\n{prefix}inactive_file {inactive}\n{prefix}active_file {active}\n"


def free(root: Path) -> int:
    return min(group.free for group in cgroups.memory_groups(root))


def test_file_pages_of_a_container_count_as_free_because_the_kernel_reclaims_them(tmp_path: Path) -> None:
    files = {
        "memory.max": str(2 * GIB),
        "memory.current": str(2_100_000_000),
        "memory.stat": stat(1_900_000_000),
    }
    found = memory.within(64 * GIB, 60 * GIB, cgroups.memory_groups(tree(tmp_path, "0::/\n", V2, files)))
    assert found == (2 * GIB, 2 * GIB - 200_000_000)


def test_the_smallest_headroom_of_the_own_group_and_those_above_counts(tmp_path: Path) -> None:
    files = {
        "a/memory.max": str(3 * GIB),
        "a/memory.current": str(GIB),
        "a/memory.stat": stat(0, GIB // 2),
        "a/b/memory.max": "max\n",
        "a/b/c/memory.max": str(8 * GIB),
        "a/b/c/memory.current": str(GIB),
        "a/b/c/memory.stat": stat(0),
    }
    root = tree(tmp_path, "0::/a/b/c\n", V2, files)
    assert [(group.limit, group.free) for group in cgroups.memory_groups(root)] == [
        (8 * GIB, 7 * GIB),
        (3 * GIB, 2 * GIB + GIB // 2),
    ]
    assert memory.within(64 * GIB, 60 * GIB, cgroups.memory_groups(root)) == (3 * GIB, 2 * GIB + GIB // 2)


def test_a_group_that_is_throttled_before_its_limit_has_no_more_than_that(tmp_path: Path) -> None:
    files = {"memory.max": "max", "memory.high": str(GIB), "memory.current": str(GIB // 4), "memory.stat": stat(0)}
    assert free(tree(tmp_path, "0::/\n", V2, files)) == GIB - GIB // 4


def test_the_memory_controller_of_version_1_is_read_with_the_groups_above(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": UNLIMITED_V1,
        "memory/memory.usage_in_bytes": str(9 * GIB),
        "memory/pod/memory.limit_in_bytes": str(4 * GIB),
        "memory/pod/memory.usage_in_bytes": str(3 * GIB),
        "memory/pod/memory.stat": stat(1) + stat(GIB, GIB, "total_"),
        "memory/pod/own/memory.limit_in_bytes": UNLIMITED_V1,
    }
    root = tree(tmp_path, "4:memory:/pod/own\n3:cpu,cpuacct:/pod\n0::/\n", V1.format(root="/"), files)
    (group,) = cgroups.memory_groups(root)
    assert (group.limit, group.free) == (4 * GIB, 3 * GIB)


def test_a_group_whose_path_lies_outside_of_the_mount_is_the_mounted_one(tmp_path: Path) -> None:
    files = {
        "memory/memory.limit_in_bytes": str(GIB),
        "memory/memory.usage_in_bytes": "0",
        "memory/memory.stat": stat(0, prefix="total_"),
    }
    mounted = tree(tmp_path, "4:memory:/docker/abc\n", V1.format(root="/docker/abc"), files)
    assert free(mounted) == GIB
    (tmp_path / "proc/self/cgroup").write_text("4:memory:/../../elsewhere\n")
    assert free(tmp_path) == GIB


@pytest.mark.parametrize("groups", ["", "nonsense\n0::/gone\n", "4:memory:\n"])
def test_control_groups_that_cannot_be_read_limit_nothing(tmp_path: Path, groups: str) -> None:
    root = tree(tmp_path, groups, V2, {"memory.max": "many"})
    assert cgroups.memory_groups(root) == [] and cgroups.cpu_quota(root) is None
    assert cgroups.memory_groups(tmp_path / "nowhere") == []


def test_more_charged_than_the_limit_is_nothing_free(tmp_path: Path) -> None:
    files = {"memory.max": "100", "memory.current": "150", "memory.stat": stat(10)}
    root = tree(tmp_path, "0::/\n", V2, files)
    assert memory.within(GIB, GIB, cgroups.memory_groups(root)) == (100, 0)


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "quota"),
    [
        ("0::/a/b\n", V2, {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        ("0::/a/b\n", V2, {"a/cpu.max": "400000 100000", "a/b/cpu.max": "250000 50000"}, 4.0),
        ("0::/a\n", V2, {"a/cpu.max": "max 100000"}, None),
        (
            "2:cpu,cpuacct:/a\n",
            V1.format(root="/"),
            {
                "cpu,cpuacct/cpu.cfs_quota_us": "-1",
                "cpu,cpuacct/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/a/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/a/cpu.cfs_period_us": "100000",
            },
            0.5,
        ),
    ],
)
def test_the_smallest_cpu_quota_of_the_own_group_and_those_above_counts(
    tmp_path: Path, groups: str, mounts: str, files: Mapping[str, str], quota: float | None
) -> None:
    assert cgroups.cpu_quota(tree(tmp_path, groups, mounts, files)) == quota


@pytest.mark.parametrize(
    ("affinity", "quota", "cores", "threads"),
    [
        (64, None, 64, 32),
        (64, 4.0, 4, 4),
        (64, 1.5, 2, 1),
        (64, 0.5, 1, 1),
        (2, 8.0, 2, 1),
        (1, None, 1, 1),
        (4, 3.0, 3, 2),
    ],
)
def test_cores_and_threads_follow_affinity_and_quota(
    affinity: int, quota: float | None, cores: int, threads: int
) -> None:
    assert cpu.usable_cores(affinity, quota) == cores
    assert cpu.default_threads(affinity, quota) == threads


Times = namedtuple("Times", "user nice system idle iowait guest guest_nice")


def times(busy: float, idle: float, iowait: float = 0.0, guest: float = 0.0) -> Any:
    return Times(busy, 0.0, 0.0, idle, iowait, guest, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (times(10, 10), times(11, 13), 25.0),
        (times(10, 10), times(10, 14), 0.0),
        (times(10, 10), times(14, 10), 100.0),
        (times(10, 10, iowait=5), times(11, 12, iowait=4), 33.3),  # the kernel counts waiting backwards now and then
        (times(10, 10, guest=10), times(14, 14, guest=14), 50.0),  # guests are part of user
        (times(10, 10), times(9, 11), 0.0),
    ],
)
def test_usage_is_the_busy_share_between_two_samples_and_stays_within_0_and_100(
    before: Any, after: Any, percent: float
) -> None:
    assert cpu.busy_percent(before, after) == pytest.approx(percent, abs=0.05)


def test_two_samples_without_time_between_them_are_a_failed_sample() -> None:
    with pytest.raises(OSError, match="no time"):
        cpu.busy_percent(times(10, 10), times(10, 10))


class Counters:
    """Processor times that a test moves on."""

    def __init__(self) -> None:
        self.now, self.times, self.waited = 0.0, times(0, 0), 0.0

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        self.now += seconds
        self.times = times(self.times.user + seconds * 0.5, self.times.idle + seconds * 0.5)

    def reading(self) -> cpu.CpuReading:
        return cpu.CpuReading(times=lambda: self.times, clock=lambda: self.now, wait=self.wait)


def test_the_first_sample_is_measured_and_not_0() -> None:
    counters = Counters()
    reading = counters.reading()
    assert reading()["cpu_usage_percent"] == 50.0
    assert counters.waited == cpu.SAMPLE_LEAST_S


def test_a_sample_after_a_while_waits_for_nothing() -> None:
    counters = Counters()
    reading = counters.reading()
    counters.now, counters.times = 10.0, times(8, 2)
    assert reading()["cpu_usage_percent"] == 80.0
    counters.now, counters.times = 20.0, times(10, 10)
    assert reading()["cpu_usage_percent"] == 20.0
    assert counters.waited == 0
