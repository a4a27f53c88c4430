"""A worker whose disk is full notices the end of its processes, says why nothing starts, and recovers by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localai.jobs.operation_rules import Cause, OpState, Order
from tests.integration.worker_agent.conftest import MakeRig, Rig, order
from tests.loopback import eventually
from tests.small_disk import fill, make_room, small_disk
from worker_agent.processes import journal

pytestmark = pytest.mark.integration


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The file system below the worker's data folder."""
    with small_disk(tmp_path / "worker", 4) as folder:
        yield folder


def pid_of(rig: Rig, wanted: Order) -> int:
    rig.frontend.wait_report(wanted, OpState.READY)
    newest = rig.frontend.reports[-1]
    return next(process.pid for process in newest.processes if process.job_id == wanted.job_id)


def test_the_end_of_a_process_is_reported_while_the_disk_is_full(disk: Path, make_rig: MakeRig) -> None:
    rig = make_rig()
    pid = pid_of(rig, rig.run(order()))
    fill(disk, rig.folders.journal)
    os.kill(pid, signal.SIGKILL)
    rig.frontend.wait("a report without the process", lambda: rig.frontend.reports[-1].processes == ())

    refused = rig.frontend.wait_report(rig.run(order()), OpState.ENDED)
    assert refused.error is not None and refused.error.cause == Cause.DISK_FULL

    make_room(disk)
    assert rig.frontend.wait_report(rig.run(order()), OpState.READY).address
    eventually(lambda: len(journal.read(rig.folders.journal)) == 1, "the journal names only what runs")


def test_a_backend_that_finds_no_room_fails_with_the_full_disk(disk: Path, make_rig: MakeRig) -> None:
    rig = make_rig()
    fill(disk)
    ended = rig.frontend.wait_report(rig.run(order()), OpState.ENDED)
    assert ended.error is not None and ended.error.cause == Cause.DISK_FULL
    make_room(disk)
    assert rig.frontend.wait_report(rig.run(order()), OpState.READY).address
