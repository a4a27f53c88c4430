"""The thread that watches a process group reports its end, whatever its listeners and the process table do."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.integration.worker_agent.fake_frontend import LIMIT_S
from worker_agent.hooks import Hooks
from worker_agent.processes import proc_table, process
from worker_agent.processes.logs import OutputFiles
from worker_agent.processes.process import Group

pytestmark = pytest.mark.integration


def ended_group(tmp_path: Path) -> Group:
    popen = subprocess.Popen(["true"], start_new_session=True)
    output = OutputFiles(tmp_path / "out", tmp_path / "err")
    return Group(popen, instance="i", name="m#0", grace_s=1.0, output=output, hooks=Hooks())


def test_a_listener_that_fails_keeps_the_end_from_no_other(tmp_path: Path) -> None:
    group, told = ended_group(tmp_path), threading.Event()

    def fails(_: Group) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def listens(changed: Group) -> None:
        if changed.gone.is_set():
            told.set()

    group.watch(fails, listens)
    assert told.wait(LIMIT_S)


def test_a_group_that_is_not_seen_to_end_after_kill_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "KILL_BOUND_S", 0.1)
    group = ended_group(tmp_path)  # not watched, so that its end is not seen
    assert not group.end(0.0)
    assert group.outlives_kill
    group.watch()
    assert group.gone.wait(LIMIT_S)


def test_a_process_table_that_cannot_be_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = proc_table.group_members, []

    def members(pgid: int) -> list[int]:
        calls.append(pgid)
        if len(calls) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(pgid)

    monkeypatch.setattr(proc_table, "group_members", members)
    group = ended_group(tmp_path)
    group.watch()
    assert group.gone.wait(LIMIT_S) and len(calls) >= 2
