"""LJ-07: a frontend or a worker whose clock is wrong by minutes ends no live lease and keeps no dead one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from localai.clock import boottime
from tests.acceptance import wrong_clock
from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.timeout(300)]

LEASE_S = 4.0
#: A sweep, and a busy machine.
SEEN_S = 8.0
AHEAD_S, BEHIND_S = 600, -600


@pytest.fixture
def library(tmp_path: Path) -> Path:
    built = wrong_clock.build(tmp_path)
    if built is None:
        pytest.skip("making a clock wrong needs Linux and a C compiler")
    return built


def test_lj_07_only_the_clock_of_the_database_decides_about_leases(cluster: Cluster, library: Path) -> None:
    assert SCALED_WINDOWS["LOCALAI_JOB_LEASE_TTL"] == f"{LEASE_S:.0f}s"
    cluster.servers()
    owner = cluster.frontend("owner")
    cluster.model("long", "fault", "load_delay:15s")
    owner.wait_for_model("long")
    behind = cluster.frontend("behind", **wrong(library, BEHIND_S))
    ahead = cluster.frontend("ahead", **wrong(library, AHEAD_S))
    for frontend, offset_s in ((behind, BEHIND_S), (ahead, AHEAD_S)):
        control = frontend.process.child("tasks.control")
        assert control.environ()["TEST_CLOCK_OFFSET_S"] == str(offset_s)
        control.suspend()  # so that the load is owned by the one whose clock is right
    cluster.worker("worker", behind, ahead, **wrong(library, AHEAD_S))
    behind.wait_for_nodes(1)

    job_id = str(owner.post("/backend/load", {"model": "long"}).json()["job_id"])
    before = wait_for("an owner and a claim", lambda: claimed(ahead, job_id))
    for frontend in (behind, ahead):
        frontend.process.child("tasks.control").resume()
    began = boottime()
    wait_for("two leases", lambda: boottime() - began > 2 * LEASE_S)
    now = job(ahead, job_id)
    assert (now["state"], now["owner"], now["generation"]) == ("running", before["owner"], before["generation"])

    died = boottime()
    for frontend in (owner, ahead):
        frontend.process.kill_all()
    after = wait_for("the end of the dead lease", lambda: taken_away(behind, job_id, before), LEASE_S + SEEN_S + 10)
    assert LEASE_S - LEASE_S / 4 - 1 < boottime() - died < LEASE_S + SEEN_S, after


def wrong(library: Path, offset_s: int) -> Mapping[str, str]:
    """The variables of a process whose clock is wrong; that it is, is seen on another process."""
    variables = wrong_clock.variables(library, offset_s)
    script = "import datetime, time; print(time.time(), datetime.datetime.now().timestamp())"
    said = subprocess.check_output([sys.executable, "-c", script], env={**os.environ, **variables}, text=True)
    for shown in said.split():
        assert abs(float(shown) - time.time() - offset_s) < 60
    return variables


def job(frontend: Frontend, job_id: str) -> dict[str, Any]:
    return dict(frontend.get(f"/api/jobs/{job_id}").json())


def claimed(frontend: Frontend, job_id: str) -> dict[str, Any] | None:
    row = job(frontend, job_id)
    return row if row["state"] == "running" and row["phase"] == "loading" else None


def taken_away(frontend: Frontend, job_id: str, before: Mapping[str, Any]) -> dict[str, Any] | None:
    """Failed, or adopted by the owner that is left."""
    row = job(frontend, job_id)
    return row if (row["state"], row["generation"]) != ("running", before["generation"]) else None
