"""Kill -9 of each process in turn, during a load and during traffic: what must recover recovers by itself."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import psutil
import pytest

from tests import plain_http
from tests.acceptance.cluster import Cluster, Frontend, alive, processes_below, wait_for
from tests.acceptance.test_breaker import instances
from tests.acceptance.test_stalled_processes import process_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

#: Codes a client may see while something recovers; each stands in docs/reference/errors.md.
EXPECTED_CODES = {
    "backend_crashed",
    "backend_unavailable",
    "model_load_failed",
    "model_loading",
    "server_error",
    "storage_unavailable",
}

VICTIMS = {
    "web worker": ("gunicorn",),
    "control": ("tasks.control",),
    "agent": ("worker_agent.main",),
    "model process": (),
}


def victim(up: Frontend, name: str, model: str = "") -> psutil.Process:
    """The process to kill: for the web, the worker below gunicorn's master; ``model`` is that of a model process."""
    if name == "model process":
        return process_of(up, model)
    if name != "web worker":
        return up.process.child(*VICTIMS[name])
    master = up.process.child("gunicorn")
    return wait_for("a web worker", lambda: next(iter(master.children()), None))


@pytest.mark.parametrize("name", ["web worker", "control", "agent"])
def test_lj_06_a_kill_during_a_load_recovers_by_itself(machine: Cluster, up: Frontend, name: str) -> None:
    model = machine.model(f"loads-while-the-{name.replace(' ', '-')}-dies", "fault", "load_delay:3s")
    up.wait_for_nodes(1)
    up.wait_for_model(model)
    thread = threading.Thread(target=_ask_quietly, args=(up, model))
    thread.start()
    wait_for("the load on the node", lambda: _loading(up, model))
    victim(up, name).kill()
    answer = up.chat_until_answered(model)
    assert model in answer.text
    thread.join(120)
    assert up.get(f"/api/models/{model}/load-status").status_code == 404
    assert len(up.jobs(kind="model.load", subject=model, state="succeeded")) == 1
    _every_process_has_a_row(up)


def _ask_quietly(up: Frontend, model: str) -> None:
    try:
        up.chat(model)
    except httpx2.TransportError:
        return


def _loading(up: Frontend, model: str = "slow") -> bool:
    response = up.get(f"/api/models/{model}/load-status")
    return response.status_code == 200 and response.json()["state"] == "loading"


def _every_process_has_a_row(up: Frontend) -> None:
    """What lost its row ends within a report; each model is served by one process."""

    def agree() -> bool:
        found = [p for p in processes_below(up.process.pid) if _is_model_process(p)]
        return len(found) == len(instances(up))

    wait_for("one model process for each loaded model", agree, 60)


def _with_model_process(up: Frontend) -> list[psutil.Process] | None:
    """All processes of this machine, once a model process is among them."""
    found = processes_below(up.process.pid)
    return found if any(_is_model_process(process) for process in found) else None


def _is_model_process(process: psutil.Process) -> bool:
    try:
        line = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    return any(word.endswith("backend.py") for word in line) and "--addr" in line


@pytest.mark.parametrize("name", list(VICTIMS))
def test_a_kill_during_traffic_recovers_by_itself(machine: Cluster, up: Frontend, name: str) -> None:
    model = machine.model(f"serves-while-the-{name.replace(' ', '-')}-dies", "fault", "tokens:8", "token_delay:20ms")
    up.wait_for_nodes(1)
    up.wait_for_model(model)
    assert up.chat_until_answered(model).status_code == 200

    seen: list[Any] = []
    end = threading.Event()
    threads = [threading.Thread(target=_traffic, args=(up, model, seen, end)) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_for("traffic", lambda: len(seen) > 20)
    victim(up, name, model).kill()
    count = len(seen)
    wait_for("traffic after the kill", lambda: seen[count:].count(200) > 20)
    end.set()
    for thread in threads:
        thread.join(120)
    codes = {code for code in seen if isinstance(code, str)}
    assert codes <= EXPECTED_CODES, codes
    if name == "control":
        assert set(seen) == {200}, "the warm path needs no control process"
    assert up.chat_until_answered(model).status_code == 200
    _every_process_has_a_row(up)


def _traffic(up: Frontend, model: str, seen: list[Any], end: threading.Event) -> None:
    while not end.is_set():
        try:
            response = up.chat(model)
        except httpx2.TransportError:
            seen.append("server_error")
            end.wait(0.1)
            continue
        if response.status_code == 200:
            seen.append(200)
        else:
            seen.append(response.json()["error"]["code"])
            end.wait(0.1)


@pytest.mark.parametrize("during", ["a load", pytest.param("traffic", marks=pytest.mark.long)])
def test_kill_9_of_the_supervisor_leaves_no_process(cluster: Cluster, during: str) -> None:
    up = cluster.up()
    up.wait_for_nodes(1)
    cluster.model("slow", "fault", "load_delay:3s")
    up.wait_for_model("slow")
    thread = threading.Thread(target=_ask_quietly, args=(up, "slow"))
    thread.start()
    if during == "a load":
        wait_for("the load on the node", lambda: _loading(up))
    else:
        assert up.chat_until_answered("slow").status_code == 200
    everything = wait_for("a model process among them", lambda: _with_model_process(up))
    up.process.popen.kill()
    up.process.popen.wait(30)
    wait_for("no process left 5 s after the supervisor died", lambda: not any(alive(p) for p in everything), 10)
    thread.join(120)
    again = cluster.up("again")
    assert again.chat_until_answered("slow").status_code == 200


@pytest.mark.parametrize("server", ["postgres", "nats-server", "valkey-server"])
def test_a_killed_server_is_started_again(machine: Cluster, up: Frontend, server: str) -> None:
    before, after = f"before-{server}-dies", f"after-{server}-died"
    up.wait_for_nodes(1)
    for name in (before, after):
        machine.model(name, "fault")
        up.wait_for_model(name)
    assert up.chat_until_answered(before).status_code == 200
    up.process.child(server).kill()
    assert up.chat_until_answered(before).status_code == 200
    assert up.chat_until_answered(after).status_code == 200
    assert len(up.jobs(kind="model.load", subject=before)) == 1, "a loaded model was loaded again"


def test_sc_02_leftovers_of_a_killed_worker_are_gone_before_it_is_ready(cluster: Cluster) -> None:
    cluster.servers()
    frontend = cluster.frontend("frontend")
    worker = cluster.worker("worker", frontend)
    frontend.wait_for_nodes(1)
    cluster.model("stubborn", "fault", "fork_child:true", "ignore_sigterm:true")
    frontend.wait_for_model("stubborn")
    assert frontend.chat_until_answered("stubborn").status_code == 200
    everything = processes_below(worker.pid)
    worker.popen.kill()
    worker.popen.wait(30)
    node = frontend.nodes()[0]
    again = cluster.worker("worker", frontend)
    wait_for("the group of the killed worker gone", lambda: not any(alive(p) for p in everything), 60)
    assert frontend.chat_until_answered("stubborn").status_code == 200
    assert frontend.nodes()[0]["id"] == node["id"]
    assert again.stop() == 0


@pytest.mark.long
def test_a_web_process_that_died_costs_little_cpu_until_the_next_answer(cluster: Cluster) -> None:
    """Seconds of CPU, and not of the clock: a busy machine stretches the second and not the first."""
    up = cluster.up()
    master = up.process.child("gunicorn")
    old = victim(up, "web worker")
    old.kill()
    new = wait_for("another worker", lambda: _child_but(master, old.pid))
    wait_for("an answer", lambda: _answers(up))
    assert _cpu_s(new) < 1.0, "a worker inherits its modules"

    master.kill()
    again = wait_for("another master", lambda: _child_but(psutil.Process(up.process.pid), master.pid, "gunicorn"))
    wait_for("an answer", lambda: _answers(up))
    assert _cpu_s(again, *again.children()) < 5.0
    assert "starting it again in 0.05 s" in up.process.text()


def _child_but(parent: psutil.Process, pid: int, word: str = "") -> psutil.Process | None:
    for child in parent.children():
        try:
            if child.pid != pid and alive(child) and word in " ".join(child.cmdline()):
                return child
        except psutil.NoSuchProcess:
            continue
    return None


def _answers(up: Frontend) -> bool:
    try:
        return plain_http.get(up.url + "/readyz", timeout=5).status_code == 200
    except httpx2.TransportError:
        return False


def _cpu_s(*processes: psutil.Process) -> float:
    times = [process.cpu_times() for process in processes]
    return sum(spent.user + spent.system for spent in times)
