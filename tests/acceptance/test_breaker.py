"""What a hostile reviewer tried on real processes: each test is a case that once broke something, or must never."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import grpc
import psutil
import pytest

from protos import backend_pb2, backend_pb2_grpc
from tests.acceptance.cluster import API_KEY, LIMIT_S, Cluster, Frontend, alive, frozen, wait_for

T = TypeVar("T")

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]


class Background(Generic[T]):
    """A call on another thread, and what it returned."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._answers: list[T] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(call()), daemon=True)
        self._thread.start()

    def result(self) -> T:
        self._thread.join(LIMIT_S)
        return self._answers[0]


def web_worker(up: Frontend) -> psutil.Process:
    master = up.process.child("gunicorn")
    return wait_for("a web worker", lambda: next(iter(master.children()), None))


def instances(up: Frontend) -> dict[str, str]:
    """The process instance of each loaded replica, by model."""
    (node,) = up.nodes()
    rows = up.get(f"/api/nodes/{node['id']}/models").json()
    return {row["model_name"]: row["process_instance"] for row in rows if row["state"] == "loaded"}


def test_last_words_that_no_row_can_hold_fail_their_load_and_no_other(machine: Cluster, up: Frontend) -> None:
    """A report names all operations of a node: refused for one text, none of them would be renewed."""
    machine.model("garbled", "fault", "load_delay:3s", "load_fail:no such luck")
    up.wait_for_model("garbled")
    asking = Background(lambda: up.chat("garbled"))
    log = machine.state_dir / "worker" / "logs"
    output = wait_for("its log", lambda: next(iter(log.glob("garbled*.err.log")), None))
    with output.open("ab") as file:
        file.write(b"nul \0 and half a pair \xed\xa0\x80 here\n")
    response = asking.result()
    assert response.status_code == 503, response.text
    assert response.json()["error"]["code"] == "model_load_failed"
    (job,) = up.jobs(kind="model.load", subject="garbled")
    assert (job["state"], job["error_cause"]) == ("failed", "load_refused")
    assert "and half a pair" in job["error_detail"]["stderr_tail"]


def test_tq_01_a_model_that_kills_its_worker_is_started_once_for_each_load_and_the_worker_comes_back(
    machine: Cluster, up: Frontend
) -> None:
    """Its message is delivered again to the next life of the agent; the row, failed by then, starts nothing.

    Landlock keeps a model process from signalling its worker; a load that takes all memory ends it just so.
    """
    machine.model("killer", "fault", "load_delay:1h")
    machine.model("survivor", "fault", "tokens:1")
    up.wait_for_model("survivor")
    for attempt in (1, 2):
        agent = up.process.child("worker_agent.main")
        asking = Background(lambda: up.chat("killer"))
        wait_for("its process", lambda: starts(machine, "killer") == attempt)  # noqa: B023  called at once
        agent.kill()
        response = asking.result()
        assert response.status_code == 503, response.text
        assert response.json()["error"]["code"] == "model_load_failed"
        assert not alive(agent), "it was killed"
        up.wait_for_nodes(1)
        jobs = up.jobs(kind="model.load", subject="killer")
        assert [job["state"] for job in jobs] == ["failed"] * attempt
        assert {(job["error_cause"], job["attempts"]) for job in jobs} == {("worker_restarted", 1)}
        assert up.chat_until_answered("survivor").status_code == 200
        wait_for("the end of the hold", lambda: up.get("/api/models/killer/load-status").status_code == 404)
    assert starts(machine, "killer") == 2


def starts(cluster: Cluster, model: str) -> int:
    """How many processes of a model the worker has started."""
    log = (cluster.state_dir / "logs" / "agent.log").read_text(errors="replace")
    return sum("process started" in line and f"process={model}#0" in line for line in log.splitlines())


def refusals(address: str, *shown: tuple[str, str]) -> list[grpc.StatusCode]:
    """How a model process answers another account of this machine, which knows its address and what `shown` says."""
    with grpc.insecure_channel(address) as channel:
        stub = backend_pb2_grpc.BackendStub(channel)  # type: ignore[no-untyped-call]  # generated
        calls = (
            stub.Predict.future(backend_pb2.PredictOptions(Prompt="hello"), metadata=shown, timeout=LIMIT_S),
            stub.LoadModel.future(backend_pb2.ModelOptions(Model="other"), metadata=shown, timeout=LIMIT_S),
            stub.Health.future(backend_pb2.HealthMessage(), metadata=shown, timeout=LIMIT_S),
            stub.Free.future(backend_pb2.HealthMessage(), metadata=shown, timeout=LIMIT_S),
        )
        return [call.code() for call in calls]


def test_a_stranger_can_neither_ask_nor_free_a_model_and_a_new_life_of_the_agent_draws_another_secret(
    machine: Cluster, up: Frontend
) -> None:
    machine.model("locked", "fault", "tokens:1")
    up.wait_for_model("locked")
    secrets: list[str] = []
    for life in (1, 2):
        assert up.chat_until_answered("locked").status_code == 200
        agent, instance = up.process.child("worker_agent.main"), instances(up)["locked"]
        (process,) = [
            child for child in agent.children() if child.environ().get("LOCALAI_PROCESS_INSTANCE") == instance
        ]
        (port,) = {one.laddr.port for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
        address, secret = f"127.0.0.1:{port}", process.environ().get("LOCALAI_GRPC_AUTH_TOKEN", "")
        for shown in ([], *([("authorization", f"Bearer {one}")] for one in (*secrets, API_KEY))):
            assert refusals(address, *shown) == [grpc.StatusCode.UNAUTHENTICATED] * 4
        assert up.chat("locked").status_code == 200, "nothing was freed"
        assert secret not in secrets
        secrets.append(secret)
        if life == 1:
            agent.kill()
            assert psutil.wait_procs([process], LIMIT_S)[1] == [], "it ends with its agent"
            up.wait_for_nodes(1)
    answers = [up.get(path).text for path in ("/api/nodes", "/api/jobs", "/api/models")]
    (node,), jobs = up.nodes(), up.jobs(kind="model.load", subject="locked")
    answers += [
        up.get(f"/api/nodes/{node['id']}/models").text,
        *(up.get(f"/api/jobs/{job['id']}").text for job in jobs),
    ]
    logs = [path.read_text(errors="replace") for path in machine.state_dir.rglob("*.log")]
    logs.append((machine.state_dir / "worker" / "journal").read_text())
    assert not [text for text in (*answers, *logs) for secret in secrets if secret in text]


def test_a_thousand_waiting_clients_do_not_exhaust_the_open_files_of_a_web_process(up: Frontend) -> None:
    """With the usual limit of 1,024 the process took no further connection, heartbeats of agents included."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < 4000:
        pytest.skip("this machine allows no more open files")
    soft, _ = web_worker(up).rlimit(resource.RLIMIT_NOFILE)
    assert soft >= 4000


def asking(up: Frontend, model: str, *, stream: bool) -> socket.socket:
    """A client that has sent a chat request and waits."""
    body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hello"}]})
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nx-api-key: {API_KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    client = socket.create_connection(("127.0.0.1", int(up.url.rsplit(":", 1)[1])), timeout=LIMIT_S)
    client.sendall((head + body).encode())
    return client


def test_sc_07_pm_06_clients_that_leave_a_silent_model_leave_no_handle(machine: Cluster, up: Frontend) -> None:
    """More clients than the backend has threads, in three rounds: calls that were not cancelled would starve the last."""
    machine.model("silent", "fault", "hang_in_predict:true", "tokens:1")
    machine.model("beside-it", "fault", "tokens:1")
    up.wait_for_model("beside-it")
    assert up.chat_until_answered("beside-it").status_code == 200
    first = asking(up, "silent", stream=True)
    wait_for("the silent model", lambda: "silent" in instances(up))
    first.close()
    worker = web_worker(up)
    before = worker.num_fds()
    for _ in range(3):
        clients = [asking(up, "silent", stream=number % 2 == 0) for number in range(150)]
        wait_for("most of them inside", lambda: worker.num_fds() >= before + 130)
        for client in clients:
            client.close()
        wait_for("their handles back", lambda: worker.num_fds() <= before + 5, 10)
    assert up.chat("beside-it").status_code == 200


def test_c7_c11_a_frozen_agent_ends_nothing_that_serves_when_it_thaws(machine: Cluster, up: Frontend) -> None:
    """Longer than the kill TTL and the stop window; what serves goes on serving, and stays the same process."""
    machine.model("serves-on", "fault", "tokens:1")
    up.wait_for_model("serves-on")
    assert up.chat_until_answered("serves-on").status_code == 200
    before = instances(up)
    thawed = threading.Event()
    with frozen(up.process.child("worker_agent.main")):
        thawed.wait(22)
        assert up.chat("serves-on").status_code == 200
    machine.model("after-the-thaw", "fault", "tokens:1")
    up.wait_for_model("after-the-thaw")
    assert up.chat_until_answered("after-the-thaw").status_code == 200
    after = instances(up)
    assert {name: after.get(name) for name in before} == before
