"""Silence of nodes while it could not be broken: the database stood still, or its clock stepped."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from localai.clock import boottime
from tests.acceptance import wrong_clock
from tests.acceptance.cluster import Cluster, Frontend, Started, frozen, processes_below, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.timeout(300)]

STALE_S, AWAY_S = 8.0, 14.0
HOUR_S = 3600
#: What a control process logs when it gives a node up or takes it back.
CHANGED = "node changed its status by its heartbeats"


def test_nodes_and_loads_outlast_a_database_that_stood_still_for_longer_than_the_stale_threshold(
    cluster: Cluster,
) -> None:
    # The worker is to keep its operation for the whole outage.
    cluster.variables.update(LOCALAI_WORKER_KILL_TTL="25s", LOCALAI_STOP_WINDOW="35s")
    servers = cluster.servers()
    frontend = cluster.frontend("front", LOCALAI_STALE_NODE_THRESHOLD=f"{STALE_S:.0f}s")
    cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    cluster.model("warm", "fault")
    cluster.model("loading", "fault", "load_delay:25s")
    frontend.wait_for_model("loading")
    assert frontend.chat_until_answered("warm").status_code == 200
    job_id = str(frontend.post("/backend/load", {"model": "loading"}).json()["job_id"])
    wait_for("a load under way", lambda: job(frontend, job_id)["phase"] == "loading")

    with ExitStack() as stack:
        for process in database_of(servers):
            stack.enter_context(frozen(process))
        began = boottime()
        wait_for("the outage", lambda: boottime() - began > AWAY_S)
    wait_for("routes that are confirmed again", frontend.is_ready)

    began = boottime()
    while boottime() - began < STALE_S:
        assert [node["status"] for node in frontend.nodes()] == ["healthy"]
        assert frontend.chat("warm").status_code == 200
    assert CHANGED not in log_of(frontend)
    loads = [row for row in frontend.jobs(kind="model.load") if row["subject"] == "warm"]
    assert len(loads) == 1, "no second process of the model was started"
    wait_for("the end of the load", lambda: job(frontend, job_id)["state"] not in ("queued", "running"))
    assert job(frontend, job_id)["state"] == "succeeded", job(frontend, job_id)


@pytest.fixture
def clock(tmp_path: Path) -> wrong_clock.SteppingClock:
    library = wrong_clock.build(tmp_path)
    if library is None:
        pytest.skip("making a clock wrong needs Linux and a C compiler")
    return wrong_clock.SteppingClock(library, tmp_path)


def test_a_database_clock_that_was_an_hour_ahead_for_a_moment_makes_nothing_wait_for_an_hour(
    cluster: Cluster, clock: wrong_clock.SteppingClock
) -> None:
    cluster.servers(program=clock.program())
    frontend = cluster.frontend("front", LOCALAI_STALE_NODE_THRESHOLD=f"{STALE_S:.0f}s")
    for name in ("one", "two"):
        cluster.worker(name, frontend)
    frontend.wait_for_nodes(2)
    cluster.model("cold", "fault", "load_delay:3s")
    cluster.model("broken", "fault", "load_fail:out of memory")
    frontend.wait_for_model("broken")

    clock.step(HOUR_S)
    frontend.post("/backend/load", {"model": "cold"})
    broken_id = str(frontend.post("/backend/load", {"model": "broken"}).json()["job_id"])
    failed = wait_for("a failed load", lambda: ended(frontend, broken_id), 20)
    assert failed["state"] == "failed", failed
    assert ahead_s(failed["finished_at"]) > HOUR_S / 2, "the clock of the database has stepped"
    clock.step(0)
    held = frontend.chat("broken")
    assert held.status_code != 200
    assert int(held.headers["Retry-After"]) <= 20, held.headers

    frontend.wait_for_nodes(2)
    assert frontend.chat_until_answered("cold", 30).status_code == 200
    again = wait_for("another attempt of the failed model", lambda: later_load(frontend, "broken", broken_id), 30)
    assert again != broken_id
    assert [node["status"] for node in frontend.nodes()] == ["healthy", "healthy"]


def test_a_step_forward_of_the_database_clock_gives_up_no_node_and_no_load(
    cluster: Cluster, clock: wrong_clock.SteppingClock
) -> None:
    cluster.servers(program=clock.program())
    frontend = cluster.frontend("front", LOCALAI_STALE_NODE_THRESHOLD=f"{STALE_S:.0f}s")
    cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    cluster.model("slow", "fault", "load_delay:8s")
    frontend.wait_for_model("slow")
    job_id = str(frontend.post("/backend/load", {"model": "slow"}).json()["job_id"])
    wait_for("a load under way", lambda: job(frontend, job_id)["phase"] == "loading")
    clock.step(HOUR_S)
    last = wait_for("the end of the load", lambda: ended(frontend, job_id))
    assert last["state"] == "succeeded", last
    assert ahead_s(last["finished_at"]) > HOUR_S / 2, "the clock of the database has stepped"
    began = boottime()
    while boottime() - began < STALE_S:
        assert [node["status"] for node in frontend.nodes()] == ["healthy"]
    assert frontend.chat("slow").status_code == 200
    assert CHANGED not in log_of(frontend)


def database_of(servers: Started) -> list[psutil.Process]:
    """Every process of PostgreSQL."""
    return [process for process in processes_below(servers.pid) if process.name() == "postgres"]


def log_of(frontend: Frontend) -> str:
    return "".join(log.read_text(errors="replace") for log in frontend.logs.glob("*.log"))


def job(frontend: Frontend, job_id: str) -> dict[str, Any]:
    return dict(frontend.get(f"/api/jobs/{job_id}").json())


def ended(frontend: Frontend, job_id: str) -> dict[str, Any] | None:
    row = job(frontend, job_id)
    return row if row["state"] not in ("queued", "running") else None


def ahead_s(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() - time.time()


def later_load(frontend: Frontend, model: str, before: str) -> str | None:
    """The id of a load that was begun by a request after the one before."""
    frontend.post("/backend/load", {"model": model})
    newest = next(row for row in frontend.jobs(kind="model.load") if row["subject"] == model)
    return str(newest["id"]) if newest["id"] != before else None
