"""What an agent ends that an earlier one left, and what it must not touch. SC-02."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localai.ids import new_id
from worker_agent.processes import journal, proc_table
from worker_agent.processes.journal import Journal
from worker_agent.processes.leftovers import kill_leftovers

pytestmark = pytest.mark.integration


@pytest.fixture
def group() -> Iterator[subprocess.Popen[bytes]]:
    """A process group with a child in it, of nobody's making."""
    with subprocess.Popen(
        ["sh", "-c", "sleep 86400 & echo; wait"], start_new_session=True, stdout=subprocess.PIPE
    ) as sh:
        assert sh.stdout is not None
        sh.stdout.readline()
        try:
            yield sh
        finally:
            os.killpg(sh.pid, 9)


def journaled(folder: Path, pid: int, started: str | None) -> Path:
    path = folder / "journal"
    written = Journal(path)
    instance = new_id()
    written.starting(instance=instance, job_id=new_id(), op_generation=1, key="m#0", port=50052)
    written.forked(instance=instance, pid=pid, started=started)
    written.close()
    return path


def test_sc_02_a_recorded_group_is_ended_to_its_last_member(tmp_path: Path, group: subprocess.Popen[bytes]) -> None:
    path = journaled(tmp_path, group.pid, proc_table.start_time(group.pid))
    members = proc_table.group_members(group.pid)
    assert len(members) == 2
    entries, survivors = kill_leftovers(path, bound_s=30.0, stop=threading.Event())
    assert ([entry.pid for entry in entries], survivors) == ([group.pid], [])
    assert not any(proc_table.is_alive(member) for member in members)
    assert journal.read(path) == []


def test_sc_02_a_group_whose_pid_now_means_somebody_else_is_left_alone(
    tmp_path: Path, group: subprocess.Popen[bytes]
) -> None:
    earlier = str(int(proc_table.start_time(group.pid) or 0) - 1)
    path = journaled(tmp_path, group.pid, earlier)
    assert kill_leftovers(path, bound_s=30.0, stop=threading.Event())[1] == []
    assert len(proc_table.group_members(group.pid)) == 2
    assert journal.read(path) == []
