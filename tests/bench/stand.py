"""What is measured: one real `localai up`, its models, and the programs that ask it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

from localai.embedded import env_file
from localai.inference.process_secrets import VARIABLE
from tests.acceptance.cluster import API_KEY, Cluster, Frontend, free_port, wait_for
from tests.bench import direct, load
from tests.bench.machine import Quiet
from tests.embedded_servers import ROOT, clean_environment, open_folder

#: The front that is measured has the first core for itself; what it asks and what asks it share the second.
FRONT_CORE, OTHER_CORE = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """How long a run takes: more rounds tell the noise, longer ones have less."""

    rounds: int
    seconds: float
    cold_loads: int
    idle_messages: int
    staged_mib: int
    fence_s: float


FULL = Length(rounds=3, seconds=2.5, cold_loads=5, idle_messages=20, staged_mib=512, fence_s=5.0)
QUICK = Length(rounds=2, seconds=1.0, cold_loads=2, idle_messages=6, staged_mib=128, fence_s=2.0)


@dataclass
class Stand:
    """The cluster of a run and who asks it."""

    cluster: Cluster
    frontend: Frontend
    length: Length
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.quiet = Quiet(self.processes)

    def processes(self) -> list[psutil.Process]:
        """Everything of this run, and this process."""
        mine = psutil.Process()
        return [mine, *mine.children(recursive=True)]

    @property
    def port(self) -> int:
        return int(self.frontend.url.rsplit(":", 1)[1])

    @property
    def state(self) -> Path:
        return self.cluster.state_dir

    def servers(self) -> Mapping[str, str]:
        """URLs of the database and the broker."""
        return env_file.read(self.state / "env")

    def web(self) -> psutil.Process:
        """The one web process, below its master."""
        master = self.frontend.process.child("gunicorn")
        return wait_for("the web process", lambda: next(iter(psutil.Process(master.pid).children()), None))

    def agent(self) -> psutil.Process:
        return self.frontend.process.child("worker_agent.main")

    def loaded(self, name: str, *options: str) -> str:
        """A model that answers; its model process's address."""
        self.cluster.model(name, "fault", *options)
        self.frontend.wait_for_model(name)
        self.load(name)
        return self.address(name)

    def load(self, name: str) -> None:
        """Have a listed model loaded; its answer is one token, however long it would be."""
        response = self.frontend.chat(name, max_tokens=1)
        if response.status_code != 200:
            raise RuntimeError(f"{name} does not answer: {response.text}")

    def address(self, model: str) -> str:
        """Where the model process of a loaded model listens."""
        (node,) = self.frontend.nodes()
        replicas = self.frontend.get(f"/api/nodes/{node['id']}/models").json()
        (address,) = [replica["address"] for replica in replicas if replica["model_name"] == model]
        return str(address)

    def secret(self, address: str) -> str:
        """What calls to the model process at an address show."""
        port = int(address.rpartition(":")[2])
        for process in self.agent().children(recursive=True):
            if any(one.laddr.port == port for one in process.net_connections("tcp") if one.status == "LISTEN"):
                return process.environ()[VARIABLE]
        raise RuntimeError(f"no model process listens on {address}")

    @contextlib.contextmanager
    def pinned(self) -> Iterator[None]:
        """The web process on a core of its own, everything else on the other."""
        front = self.web().pid
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                pin(process, FRONT_CORE if process.pid == front else OTHER_CORE)
        try:
            yield
        finally:
            for process in self.processes():
                with contextlib.suppress(psutil.Error):
                    pin(process, *range(os.cpu_count() or 1))

    def ask(self, plan: load.Plan) -> dict[str, Any]:
        """Run the load generator."""
        return run("tests.bench.load", asdict(plan), OTHER_CORE)

    def begin(self, plan: load.Plan) -> subprocess.Popen[str]:
        """The load generator in the background; `result_of` waits for it."""
        return _begin("tests.bench.load", asdict(plan), OTHER_CORE)

    def ask_directly(self, plan: direct.Plan) -> dict[str, Any]:
        """The same from a client of the model process, on the core a front would have."""
        return run("tests.bench.direct", {**asdict(plan), "secret": self.secret(plan.address)}, FRONT_CORE)

    def chat(self, model: str, **changes: Any) -> load.Plan:
        """A chat request for the frontend."""
        stream = bool(changes.get("stream"))
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": stream}
        values: dict[str, Any] = {"port": self.port, "key": API_KEY, "body": json.dumps(body)}
        return load.Plan(**{**values, **changes})

    @contextlib.contextmanager
    def asgi(self, address: str, model: str) -> Iterator[tuple[int, psutil.Process]]:
        """The ASGI app before a model process: its port and its process."""
        port = free_port()
        popen = subprocess.Popen(
            [sys.executable, *_UVICORN, "--port", str(port)],
            env=clean_environment(
                {"BENCH_ADDRESS": address, "BENCH_MODEL": model, "BENCH_SECRET": self.secret(address)}
            ),
            cwd=ROOT,
        )
        try:
            process = psutil.Process(popen.pid)
            wait_for("the ASGI app listening", lambda: bool(process.net_connections("tcp")))
            pin(process, FRONT_CORE)
            yield port, process
        finally:
            popen.terminate()
            popen.wait(30)


_UVICORN = (
    *("-m", "uvicorn", "tests.bench.asgi:app", "--host", "127.0.0.1", "--loop", "uvloop", "--http", "httptools"),
    *("--no-access-log", "--log-level", "warning"),
)


def pin(process: psutil.Process, *cores: int) -> None:
    """Keep a process and its threads on these cores; nothing on a machine with one."""
    if (os.cpu_count() or 1) < 2:
        return
    process.cpu_affinity(list(cores))
    for thread in process.threads():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread.id, cores)


def cpu_s(process: psutil.Process) -> float:
    """User and system time so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def _begin(module: str, plan: Mapping[str, Any], core: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", module]
    if (os.cpu_count() or 1) >= 2:
        command = ["taskset", "-c", str(core), *command]
    popen = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=clean_environment()
    )
    assert popen.stdin is not None
    popen.stdin.write(json.dumps(plan))
    popen.stdin.close()
    return popen


def result_of(popen: subprocess.Popen[str]) -> dict[str, Any]:
    """What a program of the bench found; fails where it failed."""
    assert popen.stdout is not None
    text = popen.stdout.read()
    if popen.wait() != 0:
        raise RuntimeError(f"{popen.args!r} ended with {popen.returncode}")
    return dict(json.loads(text))


def run(module: str, plan: Mapping[str, Any], core: int) -> dict[str, Any]:
    return result_of(_begin(module, plan, core))


#: Defaults but for what would only make a run longer.
_VARIABLES = {
    "LOCALAI_ENABLE_FAULT_BACKEND": "true",
    "LOCALAI_WEB_WORKERS": "1",
    "LOCALAI_MODEL_CONFIG_RESYNC_INTERVAL": "1s",
}


@contextlib.contextmanager
def stand(length: Length) -> Iterator[Stand]:
    """A cluster with one web process and default windows, in a folder of its own."""
    with open_folder() as folder:
        cluster = Cluster(folder, _VARIABLES)
        try:
            made = Stand(cluster, cluster.up(), length)
            yield made
        finally:
            cluster.close()


def median_of(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else 0.0
