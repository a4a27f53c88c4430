"""How much memory model processes hold, on a made tree of /proc."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from worker_agent.processes import proc_table
from worker_agent.telemetry import memory
from worker_agent.telemetry.model_memory import ModelMemory, ModelMemoryReading

pytestmark = pytest.mark.unit
GIB = 1024**3


@dataclass
class Group:
    instance: str
    name: str
    pid: int


class Processes:
    """Processes of a made /proc, and the reading of it."""

    def __init__(self, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc = proc
        self.reading = ModelMemoryReading(proc)
        monkeypatch.setattr(proc_table, "PROC", proc)

    def add(self, pid: int, group: int, *, anon: int, mapped: int, locked: int = 0, share: int | None = None) -> None:
        folder = self.proc / str(pid)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (run.sh) S 1 {group} {group} 0 -1 " + "0 " * 20)
        lines = {"VmLck": locked, "VmRSS": anon + mapped, "RssAnon": anon, "RssFile": mapped, "RssShmem": 0}
        (folder / "status").write_text(
            "Name:\trun.sh\n"
            + "".join(f"{key}:\t{size // 1024:8} kB\n" for key, size in lines.items())
            + "Threads:\t2\n"
        )
        if share is not None:
            (folder / "smaps_rollup").write_text(
                f"00400000-7ff000000000 ---p 00000000 00:00 0  [rollup]\nPss_File: {share // 1024} kB\n"
            )

    def read(self, *groups: Group) -> ModelMemory:
        self.reading.groups = lambda: groups
        return self.reading()


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(tmp_path, monkeypatch)


def test_without_groups_nothing_is_held(processes: Processes) -> None:
    assert processes.reading() == ModelMemory({}, 0)


def test_a_group_holds_what_all_its_processes_hold(processes: Processes) -> None:
    processes.add(10, 10, anon=GIB, mapped=4 * GIB)
    processes.add(11, 10, anon=2 * GIB, mapped=GIB // 8)
    processes.add(12, 99, anon=9 * GIB, mapped=9 * GIB)
    assert processes.read(Group("p", "m#0", 10)) == ModelMemory({"p": 7 * GIB + GIB // 8}, 4 * GIB + GIB // 8)


def test_a_group_whose_processes_have_ended_holds_nothing(processes: Processes) -> None:
    processes.add(10, 10, anon=GIB, mapped=GIB)
    (processes.proc / "10" / "status").unlink()
    assert processes.read(Group("p", "m#0", 10), Group("q", "n#0", 11)) == ModelMemory({"p": 0, "q": 0}, 0)


def test_pages_that_two_replicas_of_a_model_map_are_counted_once(processes: Processes) -> None:
    processes.add(10, 10, anon=GIB, mapped=4 * GIB, share=2 * GIB)
    processes.add(11, 11, anon=GIB, mapped=4 * GIB, share=2 * GIB)
    processes.add(12, 12, anon=GIB, mapped=3 * GIB, share=GIB)
    found = processes.read(Group("p", "m#0", 10), Group("q", "m#1", 11), Group("r", "n#0", 12))
    assert found.mapped == 4 * GIB + 3 * GIB, "models do not share files, so the one of n is not asked"
    assert found.resident == {"p": 5 * GIB, "q": 5 * GIB, "r": 4 * GIB}


def test_locked_pages_are_no_page_cache(processes: Processes) -> None:
    processes.add(10, 10, anon=GIB, mapped=4 * GIB, locked=4 * GIB)
    assert processes.read(Group("p", "m#0", 10)).mapped == 0


def test_mapped_weights_are_not_free_though_the_kernel_calls_them_available() -> None:
    before = memory.read()
    after = memory.read(ModelMemory({"p": 2**60}, 2**60))
    assert before["available_ram"] > 0 == after["available_ram"]
    assert (before["process_memory"], after["process_memory"]) == ({}, {"p": 2**60})
