"""A real gunicorn web process on real servers, with a test in the place of control, agent and model processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import yaml

from localai import wiring
from localai.bus.delivery import ThreadDelivery
from localai.bus.nats import NatsBus
from localai.db.engine import make_engine
from localai.embedded import exec_step
from localai.ids import JobId, OwnerId, new_id
from localai.jobs.announce import Announcer
from localai.jobs.operation_rules import OperationReport, OpState, Phase, ProcessReport, Report
from localai.observation.observer import Observer
from localai.settings import Settings
from tests import plain_http
from tests.embedded_servers import ROOT, Servers, clean_environment
from tests.fakes.grpc_backend import GrpcBackend
from tests.fakes.inference import Script
from tests.loopback import LIMIT_S, eventually, free_port

KEY = "integration-key-of-these-tests"
TOKEN = "integration-token"
#: Windows a tenth of their defaults, so that a lapse can be seen.
WINDOWS = {
    "frontend_lease_ttl_s": 12.0,
    "port_quarantine_s": 15.0,
    "waiter_poll_interval_s": 1.0,
    "config_resync_interval_s": 1.0,
}


class NoWakeups:
    """The test takes every step itself."""

    def wake_control(self, job_id: str, generation: int) -> None: ...
    def send_order(self, node_id: str, job_id: str, op_generation: int) -> None: ...
    def forget_node(self, node_id: str) -> None: ...


class WebProcess:
    """gunicorn with one worker."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings = replace(settings, port=free_port(), debuggable=True)
        self.url = f"http://127.0.0.1:{self.settings.port}"
        self.log = folder / f"web-{self.settings.port}.log"
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "-c",
            str(ROOT / "web" / "gunicorn_conf.py"),
            "web.app:create_app()",
        ]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                exec_step.command(command, death_signal=signal.SIGQUIT),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=clean_environment(self.settings.environ()),
                cwd=folder,
            )
        self.client = httpx2.Client(base_url=self.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=LIMIT_S)

    def wait_ready(self) -> None:
        eventually(self.ready, f"a ready web process; its log is {self.log}")

    def ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"gunicorn ended with {self.process.returncode}:\n{self.text()}")
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def worker_pid(self) -> int:
        """The one worker below the master."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def request_line(self, request_id: str) -> str:
        """The log line of a request."""
        found: list[str] = []

        def seen() -> bool:
            found[:] = [line for line in self.text().splitlines() if request_id in line and "sql=" in line]
            return bool(found)

        eventually(seen, f"the line of request {request_id}")
        return found[0]

    def statements_of(self, response: httpx2.Response) -> int:
        return int(self.request_line(response.headers["X-Request-Id"]).split("sql=")[1].split()[0])

    def chat(self, model: str, **body: Any) -> httpx2.Response:
        messages = [{"role": "user", "content": "hello"}]
        return self.client.post("/v1/chat/completions", json={"model": model, "messages": messages, **body})

    def open_chat(self, model: str, headers: Mapping[str, str] | None = None, **body: Any) -> socket.socket:
        """Send a chat request and leave the connection to the test."""
        messages = [{"role": "user", "content": "hello"}]
        return self.open_post("/v1/chat/completions", {"model": model, "messages": messages, **body}, headers)

    def open_post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> socket.socket:
        """Send a request and leave the connection to the test."""
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        content = httpx2.Request("POST", self.url, json=dict(body)).content
        connection = socket.create_connection(("127.0.0.1", self.settings.port))
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n{more}\r\n"
        )
        connection.sendall(head.encode() + content)
        return connection

    def open_get(self, path: str) -> socket.socket:
        """Send a request without a body and leave the connection to the test."""
        connection = socket.create_connection(("127.0.0.1", self.settings.port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode())
        return connection

    def stop(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                os.kill(self.process.pid, signal.SIGKILL)
                raise


@dataclass
class Node:
    """The test as an agent: one registered node and the model processes it reports."""

    web: WebProcess
    name: str = "node-1"
    processes: dict[str, ProcessReport] = field(default_factory=dict)
    seq: int = 0

    def __post_init__(self) -> None:
        response = plain_http.post(
            f"{self.web.url}/api/node/register",
            json={
                "name": self.name,
                "address": "127.0.0.1:50051",
                "token": TOKEN,
                "total_ram": 2**34,
                "reports_operations": True,
            },
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        assert response.status_code == 201, response.text
        registered = response.json()
        self.id, self.incarnation = registered["id"], registered["incarnation"]
        self.headers = {"Authorization": f"Bearer {registered['node_token']}"}
        self.post("heartbeat", {"incarnation": self.incarnation, "available_ram": 2**34})

    def post(self, path: str, body: Mapping[str, Any]) -> httpx2.Response:
        return plain_http.post(f"{self.web.url}/api/node/{self.id}/{path}", json=dict(body), headers=self.headers)

    def claim(self, job_id: str, op_generation: int) -> httpx2.Response:
        return self.post(f"jobs/{job_id}/claim", {"op_generation": op_generation, "incarnation": self.incarnation})

    def report(self, *operations: OperationReport) -> dict[str, Any]:
        self.seq += 1
        report = Report(
            incarnation=self.incarnation,
            seq=self.seq,
            operations=operations,
            processes=tuple(self.processes.values()),
        )
        response = self.post("report", report.to_json())
        assert response.status_code == 200, response.text
        return dict(response.json())


class Bench:
    """Servers, a database, web processes, and the control side in the test's own hands."""

    def __init__(self, servers: Servers, database_url: str, folder: Path) -> None:
        self.folder = folder
        self.models = folder / "models"
        self.models.mkdir(exist_ok=True)
        self.settings = Settings(
            state_dir=folder,
            database_url=database_url,
            nats_url=servers.nats_url,
            broker_url=servers.broker_url,
            api_key=(KEY,),
            registration_token=TOKEN,
            auto_approve_nodes=True,
            enable_fault_backend=True,
            **WINDOWS,  # type: ignore[arg-type]
        )
        self.engine = make_engine(database_url, application="test")
        self.rows = wiring.make_rows(self.engine, self.settings)
        self.bus = NatsBus(servers.nats_url, name="test", delivery=ThreadDelivery())
        announcer = Announcer(NoWakeups(), self.bus)
        self.pool = ThreadPoolExecutor(4)
        self.ownership = wiring.make_ownership(
            self.rows,
            self.settings,
            announcer,
            self.bus,
            Observer(self.rows.observation, self.settings.observation_gap_s),
            owner_id=OwnerId(f"control-{new_id()}"),
            installs=self.pool,
            elsewhere=lambda call: None,
        )
        self.webs: list[WebProcess] = []
        #: The newest life of each node; placement may choose any of them.
        self.nodes: dict[str, Node] = {}
        self.backends: list[GrpcBackend] = []
        self.threads = ThreadPoolExecutor(64)

    def web(self, **settings: Any) -> WebProcess:
        process = WebProcess(replace(self.settings, **settings), self.folder)
        self.webs.append(process)
        process.wait_ready()
        return process

    def model(self, name: str, **keys: Any) -> str:
        """Write a config and wait until every web process lists it."""
        content = yaml.safe_dump({"name": name, "backend": "fault", **keys})
        temporary = self.models / f".{new_id()}"
        temporary.write_text(content)
        temporary.rename(self.models / f"{name.replace('/', '__')}.yaml")
        for web in [web for web in self.webs if web.process.poll() is None]:
            eventually(lambda web=web: name in self.listed(web), f"model {name} listed")  # type: ignore[misc]
        return name

    @staticmethod
    def listed(web: WebProcess) -> list[str]:
        return [model["id"] for model in web.client.get("/v1/models").json()["data"]]

    def backend(self, script: Script, *, port: int = 0) -> GrpcBackend:
        backend = GrpcBackend(script, port=port)
        self.backends.append(backend)
        return backend

    def node(self, web: WebProcess, name: str = "node-1") -> Node:
        """Register a node; doing it again under one name begins a new life of it."""
        node = Node(web, name)
        self.nodes[node.id] = node
        return node

    def load(self, model: str, backend: GrpcBackend) -> str:
        """Carry the live attempt of a model to its end, as control and agent do; its job id."""
        job_id = self.place(model)
        self.finish(job_id, backend)
        return job_id

    def place(self, model: str) -> str:
        """Take and place the live attempt, and claim its operation on whichever node was chosen."""
        eventually(lambda: self.live(model) is not None, f"a job for {model}")
        live = self.live(model)
        assert live is not None
        self.ownership.stepper.step(live.id, live.generation)
        job = self.rows.jobs.get(live.id)
        assert job is not None and job.op_generation is not None, job
        assert self.node_of(job.id).claim(job.id, job.op_generation).status_code == 200
        return job.id

    def node_of(self, job_id: str) -> Node:
        """The node an attempt was placed on."""
        job = self.rows.jobs.get(JobId(job_id))
        assert job is not None and job.node_id is not None
        return self.nodes[job.node_id]

    def process_ended(self, backend: GrpcBackend) -> None:
        """Say that a model process is gone."""
        instance = backend.endpoint.process_instance
        (node,) = [node for node in self.nodes.values() if instance in node.processes]
        del node.processes[instance]
        node.report()

    def live(self, model: str) -> Any:
        row = self.rows.loads.current(model)
        return row.job if row is not None and row.job.live else None

    def finish(self, job_id: str, backend: GrpcBackend) -> None:
        """The process is READY, and control commits it."""
        node = self.node_of(job_id)
        job = self.rows.jobs.get(JobId(job_id))
        assert job is not None and job.op_generation is not None
        instance, address = backend.endpoint.process_instance, backend.endpoint.address
        node.processes[instance] = ProcessReport(
            process_instance=instance,
            model=job.subject,
            slot=job.slot,
            job_id=job.id,
            op_generation=job.op_generation,
            address=address,
            pid=1,
            ready=True,
        )
        node.report(
            OperationReport(
                job_id=job.id,
                op_generation=job.op_generation,
                op_state=OpState.READY,
                phase=Phase.LOADING,
                process_instance=instance,
                address=address,
                identity=job.subject,
            )
        )
        self.ownership.stepper.step(job.id, job.generation)
        done = self.rows.jobs.get(job.id)
        assert done is not None and done.state == "succeeded", done

    def in_background(self, call: Callable[[], Any]) -> Any:
        return self.threads.submit(call)

    def close(self) -> None:
        for backend in self.backends:
            backend.stop()
        try:
            for web in self.webs:
                web.stop()
        finally:
            self.threads.shutdown(wait=False)
            self.pool.shutdown(wait=False)
            self.bus.close()
            self.engine.dispose()


class Freezable:
    """A TCP forwarder that can stand still, as a frozen database does."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._running = threading.Event()
        self._running.set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def freeze(self) -> None:
        self._running.clear()

    def thaw(self) -> None:
        self._running.set()

    def close(self) -> None:
        self._closed = True
        self._running.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for end in self._ends:
            _shut(end)
        for thread in self._threads:
            thread.join(LIMIT_S)
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._ends.append(client)
            self._running.wait()
            server = socket.create_connection(self._target)
            self._ends.append(server)
            for source, sink in ((client, server), (server, client)):
                thread = threading.Thread(target=self._forward, args=(source, sink), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._running.wait()
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _shut(sink)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
