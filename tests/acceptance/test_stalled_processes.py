"""A model process that stands still is replaced; one that is busy stays, however silent it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import psutil
import pytest

from tests import plain_http
from tests.acceptance.cluster import Cluster, Frontend, alive, frozen, processes_below, wait_for
from tests.acceptance.test_breaker import Background, instances

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

WINDOW_S = 15.0
#: Above the window by three looks and a probe each, on a machine that is busy with other work.
REPLACED_S = 90.0


@pytest.fixture(scope="module")
def up(shared_cluster: Cluster) -> Iterator[Frontend]:
    shared_cluster.variables |= {
        "LOCALAI_HEALTH_INTERVAL": "1s",
        "LOCALAI_PROCESS_STALL_WINDOW": f"{WINDOW_S:g}s",
    }
    frontend = shared_cluster.up()
    frontend.wait_for_nodes(1)
    yield frontend


def process_of(up: Frontend, model: str) -> psutil.Process:
    """The leader of the group that holds a loaded model."""
    instance = instances(up)[model]
    for process in processes_below(up.process.child("worker_agent.main").pid)[1:]:
        if process.environ().get("LOCALAI_PROCESS_INSTANCE") == instance:
            assert os.getpgid(process.pid) == process.pid
            return process
    raise AssertionError(f"no process of {model}")


@contextmanager
def stopped_group(leader: psutil.Process) -> Iterator[None]:
    """Every process of the group stands still inside the block."""
    os.killpg(leader.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if alive(leader):
            os.killpg(leader.pid, signal.SIGCONT)


def loaded(cluster: Cluster, up: Frontend, name: str, *options: str) -> psutil.Process:
    cluster.model(name, "fault", *options)
    up.wait_for_model(name)
    assert up.chat(name, max_tokens=1).status_code == 200
    return process_of(up, name)


def ask_agent(up: Frontend, path: str) -> httpx2.Response:
    """What the agent's own HTTP server says."""
    (node,) = up.nodes()
    return plain_http.get(f"http://{node['http_address']}{path}", timeout=30)


def agent_log(cluster: Cluster) -> str:
    return (cluster.state_dir / "logs" / "agent.log").read_text(errors="replace")


def test_a_stopped_process_leaves_routing_and_the_next_request_gets_a_new_one(
    shared_cluster: Cluster, up: Frontend
) -> None:
    """Requests that the process has, read or not, end when it is killed, and reach no other process."""
    before = loaded(shared_cluster, up, "stopped", "tokens:1")
    streaming = loaded(shared_cluster, up, "halfway", "tokens:400", "token_delay:100ms")
    stream = Background(lambda: up.chat("halfway", stream=True).text)
    wait_for("a request under way", lambda: in_flight(up, "halfway"))
    assert ask_agent(up, "/readyz").status_code == 200
    with stopped_group(before), stopped_group(streaming):
        began = time.monotonic()
        waiting = Background(lambda: up.chat("stopped"))
        wait_for("the agent says so", lambda: "answers nothing" in ask_agent(up, "/readyz").text, REPLACED_S)
        wait_for("the old process is gone", lambda: not alive(before), REPLACED_S)
        gone_s = time.monotonic() - began
        response = waiting.result()
        answered_s = time.monotonic() - began
        assert (response.status_code, response.json()["error"]["code"]) == (502, "backend_crashed"), response.text
        assert gone_s >= WINDOW_S
        assert answered_s < REPLACED_S
        text = stream.result()
        assert '"code":"backend_crashed"' in text, text[-400:]
        assert not alive(streaming)
    assert up.chat("stopped").status_code == 200
    assert process_of(up, "stopped").pid != before.pid
    wait_for("the agent is ready", lambda: ask_agent(up, "/readyz").status_code == 200)
    assert "stopped#0 stands still" in agent_log(shared_cluster)
    metrics = ask_agent(up, "/metrics").text
    assert 'localai_unhealthy_processes_total{cause="stalled",model="stopped"} 1.0' in metrics


def test_a_process_that_is_frozen_for_less_than_the_window_inside_a_call_stays(
    shared_cluster: Cluster, up: Frontend
) -> None:
    process = loaded(shared_cluster, up, "frozen", "tokens:40", "token_delay:50ms")
    asked = Background(lambda: up.chat("frozen"))
    wait_for("a request under way", lambda: in_flight(up, "frozen"))
    began = time.monotonic()
    with stopped_group(process):
        # By the agent's own count, so that a busy machine does not stretch the pause over the window.
        wait_for("the agent has noticed", lambda: "frozen#0 answers nothing" in ask_agent(up, "/readyz").text, WINDOW_S)
    if time.monotonic() - began >= WINDOW_S - 1:
        pytest.skip("this machine is too busy to freeze a process for less than the window")
    assert asked.result().status_code == 200
    assert process_of(up, "frozen").pid == process.pid
    assert up.chat("frozen").status_code == 200


@pytest.mark.long
def test_a_process_that_answers_nobody_else_while_it_works_stays(shared_cluster: Cluster, up: Frontend) -> None:
    """One long call holds its interpreter for longer than the window: Health is not answered, connections are greeted."""
    shared_cluster.model("busy", "fault", "tokens:1", f"hold_interpreter:{2 * WINDOW_S:g}s")
    up.wait_for_model("busy")
    assert up.chat("busy").status_code == 200
    assert [job["state"] for job in up.jobs(kind="model.load", subject="busy")] == ["succeeded"]
    assert "busy#0 stands still" not in agent_log(shared_cluster)


def in_flight(up: Frontend, model: str) -> bool:
    (node,) = up.nodes()
    rows = up.get(f"/api/nodes/{node['id']}/models").json()
    return any(row["model_name"] == model and row["in_flight"] for row in rows)


@pytest.mark.long
def test_a_silent_call_to_a_machine_that_is_gone_ends_by_the_pings_of_its_connection(cluster: Cluster) -> None:
    """Worker and process stand still together, as on a machine without power: no worker is there to judge."""
    cluster.variables |= {
        "LOCALAI_PROCESS_STALL_WINDOW": "8s",
        "LOCALAI_GRPC_KEEPALIVE_TIME": "5s",
        "LOCALAI_GRPC_KEEPALIVE_TIMEOUT": "9s",
    }
    up = cluster.up()
    up.wait_for_nodes(1)
    cluster.model("silent", "fault", "first_token_delay:20s", "tokens:1")
    up.wait_for_model("silent")
    asked = Background(lambda: up.chat("silent"))
    wait_for("a request under way", lambda: in_flight(up, "silent"))
    agent, process = up.process.child("worker_agent.main"), process_of(up, "silent")
    with frozen(agent), stopped_group(process):
        wait_for("the connection is given up", lambda: "does not serve" in web_log(cluster))
    assert "ping timeout" in web_log(cluster)
    assert asked.result().status_code in (200, 503)


def web_log(cluster: Cluster) -> str:
    return "".join(log.read_text(errors="replace") for log in (cluster.state_dir / "logs").glob("web*.log"))
