"""How an acceptance test starts our processes as a user does, kills them as the field does, and reads what they left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil
import pytest
import yaml

from tests import plain_http

API_KEY = "acceptance-key-of-these-tests"
#: The machine is shared and noisy: a limit is there to end a hang, not to measure.
LIMIT_S = 120.0

#: Every window a tenth of its default or less, in the order the job protocol asks for.
SCALED_WINDOWS = {
    "LOCALAI_JOB_LEASE_TTL": "4s",
    "LOCALAI_WORKER_KILL_TTL": "12s",
    "LOCALAI_STOP_WINDOW": "20s",
    "LOCALAI_REPORT_WINDOW": "3s",
    "LOCALAI_DISPATCH_WINDOW": "2s",
    "LOCALAI_JOB_SWEEP_INTERVAL": "250ms",
    "LOCALAI_OPERATION_REPORT_INTERVAL": "1s",
    "LOCALAI_ADOPT_WINDOW": "2s",
    "LOCALAI_WAITER_POLL_INTERVAL": "1s",
    "LOCALAI_HEARTBEAT_INTERVAL": "1s",
    "LOCALAI_NODE_HEARTBEAT_CHECKPOINT": "2s",
    "LOCALAI_FRONTEND_LEASE_TTL": "12s",
    "LOCALAI_PORT_QUARANTINE": "15s",
    "LOCALAI_STOP_GRACE": "2s",
    "LOCALAI_MODEL_CONFIG_RESYNC_INTERVAL": "1s",
}

#: Tests count the open files of processes, also those of a normal user.
DEBUGGABLE = {"LOCALAI_DEBUGGABLE": "true"}

T = TypeVar("T")


def wait_for(what: str, condition: Callable[[], T | None], limit_s: float = LIMIT_S) -> T:
    """The first true value of ``condition``; fails with ``what`` when none came within the limit."""
    pause = threading.Event()
    for _ in range(int(limit_s / 0.05) + 1):
        value = condition()
        if value:
            return value
        pause.wait(0.05)
    raise AssertionError(f"within {limit_s:.0f} s: {what}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def localai() -> list[str]:
    """The console script of this environment."""
    return [str(Path(sys.executable).with_name("localai"))]


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("LOCALAI_")}


def processes_below(pid: int) -> list[psutil.Process]:
    """The process and everything it started, as of now."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Started:
    """One process a user would have started in a terminal."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def child(self, *words: str) -> psutil.Process:
        """The one process below this one whose command line holds all words and whose parent's does not."""
        return wait_for(f"a process {words} below {self.name}", lambda: self._child(words))

    def _child(self, words: tuple[str, ...]) -> psutil.Process | None:
        for process in processes_below(self.pid)[1:]:
            try:
                line = " ".join(process.cmdline())
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            if all(word in line for word in words):
                return process
        return None

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self, limit_s: float = 60.0) -> int:
        """TERM, as a user's ctrl-c or service manager does; the exit code."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.kill_all()
                raise AssertionError(
                    f"{self.name} did not end within {limit_s:.0f} s of TERM:\n{self.text()[-4000:]}"
                ) from None
        return self.popen.returncode

    def kill_all(self) -> None:
        for process in processes_below(self.pid):
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self.popen.wait(30)


@dataclass
class Cluster:
    """Servers, frontends and workers of one test, all on loopback, all in one folder."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)
    #: The command line program of this cluster's processes.
    program: list[str] = field(default_factory=localai)

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    @property
    def models(self) -> Path:
        return self.state_dir / "models"

    def start(
        self,
        name: str,
        *arguments: str,
        variables: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
    ) -> Started:
        """``program`` stands for the console script."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{name}.log"
        environment = {
            **clean_environment(),
            "LOCALAI_API_KEY": API_KEY,
            **DEBUGGABLE,
            **self.variables,
            **(variables or {}),
        }
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [*(program or self.program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        process = Started(name, popen, log)
        self.started.append(process)
        return process

    # One machine: `localai up`

    def up(self, name: str = "up", **variables: str) -> Frontend:
        port = free_port()
        process = self.start(name, "up", "--state-dir", str(self.state_dir), "--port", str(port), variables=variables)
        return self._ready(Frontend(process, f"http://127.0.0.1:{port}", self.state_dir / "logs"))

    # Several processes on shared servers

    def servers(self, name: str = "servers", program: Sequence[str] | None = None, **variables: str) -> Started:
        state = self.folder / "servers"
        arguments = ("up", "--servers-only", "--state-dir", str(state))
        process = self.start(name, *arguments, variables=variables, program=program)
        text = wait_for("the servers' env file", lambda: self._env_file(process, state / "env"))
        self.variables.update(dict(line.split("=", 1) for line in text.splitlines() if "=" in line))
        self.variables.pop("LOCALAI_URL", None)
        self.variables.setdefault("LOCALAI_REGISTRATION_TOKEN", "acceptance-token-of-these-tests")
        return process

    @staticmethod
    def _env_file(process: Started, path: Path) -> str | None:
        if process.popen.poll() is not None:
            raise AssertionError(f"the servers ended with {process.popen.returncode}:\n{process.text()}")
        text = path.read_text() if path.exists() else ""
        return text if "LOCALAI_BROKER_URL" in text else None

    def frontend(self, name: str, *, port: int | None = None, **variables: str) -> Frontend:
        port = port or free_port()
        state = self.folder / name
        if not state.exists():
            self.models.mkdir(parents=True, exist_ok=True)
        process = self.start(
            name,
            "run",
            "--state-dir",
            str(state),
            "--port",
            str(port),
            variables={"LOCALAI_AUTO_APPROVE_NODES": "true", "LOCALAI_MODELS_PATH": str(self.models), **variables},
        )
        return self._ready(Frontend(process, f"http://127.0.0.1:{port}", state / "logs"))

    def worker(self, name: str, *frontends: Frontend, **variables: str) -> Started:
        base = free_port()
        return self.start(
            name,
            "worker",
            "--register-to",
            ",".join(frontend.url for frontend in frontends),
            "--node-name",
            name,
            variables={
                "LOCALAI_SERVE_ADDR": f"127.0.0.1:{base}",
                "LOCALAI_HTTP_ADDR": f"127.0.0.1:{free_port()}",
                "LOCALAI_DATA_PATH": str(self.folder / f"{name}-data"),
                "LOCALAI_THREADS": "1",
                **variables,
            },
        )

    def _ready(self, frontend: Frontend) -> Frontend:
        wait_for(f"{frontend.process.name} ready", frontend.is_ready)
        return frontend

    def model(self, name: str, backend: str = "fault", *options: str, **keys: Any) -> str:
        """Write a model config; frontends see it within the resync interval."""
        self.models.mkdir(parents=True, exist_ok=True)
        config = {"name": name, "backend": backend, "options": list(options), **keys}
        temporary = self.models / f".{name.replace('/', '__')}.tmp"
        temporary.write_text(yaml.safe_dump(config))
        temporary.rename(self.models / f"{name.replace('/', '__')}.yaml")
        return name

    def complaints(self, last: int = 12) -> list[str]:
        """The last warnings and errors in the logs of all processes, by time."""
        lines = [
            line[:400]
            for log in self.folder.rglob("*.log")
            for line in log.read_text(errors="replace").splitlines()
            if any(word in line for word in (" WARNING ", " ERROR ", " CRITICAL ", "FATAL:"))
        ]
        return sorted(lines)[-last:]

    def close(self) -> None:
        """End everything that was started; one that does not end by itself keeps no other running."""
        with ExitStack() as stack:
            for process in self.started:  # the last one first
                stack.callback(self._end, process)

    @staticmethod
    def _end(process: Started) -> None:
        if process.popen.poll() is None:
            try:
                process.stop()
            finally:
                process.kill_all()


def show_complaints(item: pytest.Item, report: pytest.TestReport) -> None:
    """Add what the processes of its clusters complained about to the report of a test that failed."""
    if not report.failed:
        return
    for value in getattr(item, "funcargs", {}).values():
        if isinstance(value, Cluster):
            report.sections.append(("warnings of the cluster", "\n".join(value.complaints())))


@dataclass
class Frontend:
    """One frontend and how a client talks to it."""

    process: Started
    url: str
    logs: Path

    def is_ready(self) -> bool:
        if self.process.popen.poll() is not None:
            raise AssertionError(
                f"{self.process.name} ended with {self.process.popen.returncode}:\n{self.process.text()}"
            )
        try:
            return plain_http.get(self.url + "/readyz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return plain_http.get(self.url + path, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=30, **options)

    def post(self, path: str, body: Any = None, timeout: float = LIMIT_S, **options: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {API_KEY}", **options.pop("headers", {})}
        return plain_http.post(self.url + path, json=body, headers=headers, timeout=timeout, **options)

    def delete(self, path: str) -> httpx2.Response:
        return plain_http.delete(self.url + path, headers={"Authorization": f"Bearer {API_KEY}"}, timeout=30)

    def chat(self, model: str, text: str = "hello", **body: Any) -> httpx2.Response:
        return self.post(
            "/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": text}], **body}
        )

    def chat_until_answered(self, model: str, limit_s: float = LIMIT_S, **body: Any) -> httpx2.Response:
        """Ask again while the answer is 503, as a client with retries does; each answer must be one of the table."""

        def ask() -> httpx2.Response | None:
            try:
                response = self.chat(model, **body)
            except httpx2.TransportError:
                return None
            assert response.status_code in (200, 500, 502, 503), response.text
            assert "Traceback" not in response.text
            if response.status_code != 200:
                assert response.json()["error"]["code"], response.text
                return None
            return response

        return wait_for(f"an answer of {model}", ask, limit_s)

    def jobs(self, **filters: str) -> list[dict[str, Any]]:
        response = self.get("/api/jobs", params=filters)
        assert response.status_code == 200, response.text
        return list(response.json()["jobs"])

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.get("/api/nodes").json())

    def wait_for_nodes(self, count: int) -> None:
        wait_for(f"{count} healthy nodes", lambda: sum(node["status"] == "healthy" for node in self.nodes()) == count)

    def wait_for_model(self, name: str) -> None:
        wait_for(f"model {name} listed", lambda: name in [m["id"] for m in self.get("/v1/models").json()["data"]])

    def request_line(self, request_id: str) -> str:
        """The log line of one request."""
        return wait_for(f"the log line of request {request_id}", lambda: self._line(request_id))

    def _line(self, request_id: str) -> str | None:
        for log in self.logs.glob("web*.log"):
            for line in log.read_text(errors="replace").splitlines():
                if request_id in line and "sql=" in line:
                    return line
        return None

    def statements_of(self, response: httpx2.Response) -> int:
        """How many SQL statements the request made."""
        line = self.request_line(response.headers["X-Request-Id"])
        return int(line.split("sql=")[1].split()[0])


@contextmanager
def frozen(process: psutil.Process) -> Iterator[None]:
    """The process stands still inside the block."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)
