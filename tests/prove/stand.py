"""What do proofs run on, how long are they, and how do they read the rows?"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import psycopg2.extras

from localai.db.engine import make_engine
from localai.db.unit_of_work import units_of
from localai.settings import Settings
from tests.acceptance.cluster import (
    API_KEY,
    LIMIT_S,
    SCALED_WINDOWS,
    Cluster,
    Frontend,
    Started,
    alive,
    clean_environment,
    wait_for,
)
from tests.bench.report import Aim
from tests.embedded_servers import open_folder
from tests.simulator.checker import check
from tests.simulator.history import Bounds
from tests.simulator.pg_history import read_history
from worker_agent.processes.proc_table import INSTANCE_VARIABLE

FAULT = {"LOCALAI_ENABLE_FAULT_BACKEND": "true", "LOCALAI_MODEL_CONFIG_RESYNC_INTERVAL": "1s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is run."""

    rounds: int
    crowd: int
    owner_kills: int
    cancels: int
    frozen: int
    #: Once more with the windows that people have, 150 s long.
    frozen_by_default: bool
    paused: int
    database_s: float
    bus_cancels: int
    whole_sweep: bool
    schedules: int


FULL = Size(
    rounds=1000,
    crowd=50,
    owner_kills=100,
    cancels=100,
    frozen=3,
    frozen_by_default=True,
    paused=3,
    database_s=60.0,
    bus_cancels=20,
    whole_sweep=True,
    schedules=200_000,
)
TENTH = replace(
    FULL,
    rounds=100,
    owner_kills=10,
    cancels=10,
    frozen=1,
    paused=1,
    bus_cancels=4,
    schedules=20_000,
)
SHORT = Size(
    rounds=3,
    crowd=50,
    owner_kills=2,
    cancels=3,
    frozen=1,
    frozen_by_default=False,
    paused=1,
    database_s=5.0,
    bus_cancels=2,
    whole_sweep=False,
    schedules=200,
)
#: For a smoke test, for a cup of coffee, and what counts.
SIZES = {"short": SHORT, "tenth": TENTH, "full": FULL}


def exactly(number: int) -> Aim:
    return Aim(at_least=number, at_most=number)


@dataclass
class Ground:
    """Servers, frontends, control processes and workers of one proof, in a folder of their own."""

    cluster: Cluster
    frontends: list[Frontend] = field(default_factory=list)
    controls: list[Control] = field(default_factory=list)
    workers: list[Started] = field(default_factory=list)

    @property
    def front(self) -> Frontend:
        return self.frontends[0]

    @property
    def settings(self) -> Settings:
        return Settings.load(self.cluster.variables)

    # Processes

    def start_control(self) -> Control:
        control = Control(self, f"control-{len(self.controls)}")
        self.controls.append(control)
        return control

    def end(self) -> None:
        for control in self.controls:
            control.end()
        # All at once, and the servers last: one after the other they would wait for each other's requests.
        for process in self.cluster.started[1:]:
            if process.popen.poll() is None:
                process.popen.terminate()
        self.cluster.close()

    def owner_process(self, owner: str) -> psutil.Process:
        """The control process that calls itself so."""
        for control in self.controls:
            if control.owner == owner:
                return control.process
        for frontend in self.frontends:
            if _last_owner(frontend.logs / "control.log") == owner:
                return frontend.process.child("tasks.control")
        raise AssertionError(f"no process of ours is {owner}")

    def keep_controls(self) -> None:
        """Start anew what was killed."""
        for control in self.controls:
            if not control.alive:
                control.start()

    # Models

    def models(self, names: list[str], *options: str) -> None:
        """Models that every frontend lists."""
        for name in names:
            self.cluster.model(name, "fault", *options)
        for frontend in self.frontends:
            frontend.wait_for_model(names[-1])

    # Rows

    def rows(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """What a statement finds; a connection for each, so that a stopped database leaves nothing behind."""
        with self._cursor() as cursor:
            cursor.execute(statement, parameters)
            return [dict(row) for row in cursor.fetchall()]

    def wait_over(self, job_id: str, limit_s: float = LIMIT_S) -> str:
        """The state in which a job ends, read often and over one connection."""
        with self._cursor() as cursor:

            def state() -> str | None:
                cursor.execute("SELECT state FROM jobs WHERE id = %s", (job_id,))
                found = str(cursor.fetchone()["state"])
                return None if found in ("queued", "running") else found

            return wait_for(f"the end of job {job_id}", state, limit_s)

    def wait_row(self, job_id: str, what: str, condition: str, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """The row of a job once a condition in SQL holds for it."""
        statement = f"SELECT *, clock_timestamp() AS read_at FROM jobs WHERE id = %s AND {condition}"
        with self._cursor() as cursor:

            def row() -> dict[str, Any] | None:
                cursor.execute(statement, (job_id,))
                found = cursor.fetchone()
                return dict(found) if found else None

            return wait_for(what, row, limit_s)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        url = self.cluster.variables["LOCALAI_AUTH_DATABASE_URL"]
        with contextlib.closing(psycopg2.connect(url)) as connection:
            connection.autocommit = True
            with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
                yield cursor

    def job(self, job_id: str) -> dict[str, Any]:
        (row,) = self.rows("SELECT * FROM jobs WHERE id = %(id)s", id=job_id)
        return row

    def loads_of(self, prefix: str) -> list[dict[str, Any]]:
        """Every load of the models whose names begin so, oldest first."""
        statement = (
            "SELECT * FROM jobs WHERE kind = 'model.load' AND starts_with(subject, %(prefix)s) ORDER BY created_at"
        )
        return self.rows(statement, prefix=prefix)

    def group_of(self, job_id: str) -> list[psutil.Process]:
        """The processes of an operation that is in LoadModel: the leader, then those below it."""
        row = self.wait_row(job_id, f"{job_id} in LoadModel", "phase = 'loading' AND process_instance IS NOT NULL")
        instance = str(row["process_instance"])

        def group() -> list[psutil.Process] | None:
            leaders = [one for worker in self.workers for one in _carriers(worker.pid, instance)]
            below = [one for leader in leaders for one in leader.children(recursive=True)]
            return [*leaders, *below] if below else None

        return wait_for(f"the group of {row['subject']}", group)

    def load(self, model: str) -> str:
        """Have a model loaded; the job that does it."""
        response = wait_for(f"a load of {model}", lambda: self._accepted(model))
        return str(response["job_id"])

    def _accepted(self, model: str) -> dict[str, Any] | None:
        response = self.front.post("/backend/load", {"model": model})
        return dict(response.json()) if response.status_code in (200, 202) else None

    def violations(self) -> list[str]:
        """What of the job protocol the history of this database breaks."""
        settings = self.settings
        bounds = Bounds(
            stop_s=settings.stop_window_s, report_s=settings.report_window_s, kill_ttl_s=settings.worker_kill_ttl_s
        )
        engine = make_engine(self.cluster.variables["LOCALAI_AUTH_DATABASE_URL"], application="prove", pool_size=1)
        try:
            return [str(violation) for violation in check(read_history(units_of(engine), bounds))]
        finally:
            engine.dispose()


class Control:
    """A control process beside those of frontends: it is started again at once, by nobody but the proof."""

    def __init__(self, ground: Ground, name: str) -> None:
        self._ground, self._name = ground, name
        self._popen: subprocess.Popen[bytes] | None = None
        self._starts = 0
        self.start()

    @property
    def process(self) -> psutil.Process:
        assert self._popen is not None
        return psutil.Process(self._popen.pid)

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def owner(self) -> str | None:
        return _last_owner(self._log)

    @property
    def _log(self) -> Path:
        return self._ground.cluster.folder / f"{self._name}-{self._starts}.log"

    def start(self) -> None:
        self._starts += 1
        cluster = self._ground.cluster
        environment = {
            **clean_environment(),
            **cluster.variables,
            "LOCALAI_API_KEY": API_KEY,
            "LOCALAI_MODELS_PATH": str(cluster.models),
            "LOCALAI_STATE_DIR": str(cluster.folder / self._name),
        }
        (cluster.folder / self._name).mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "tasks.control"]
            self._popen = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_for(f"{self._name} ready", lambda: self.owner)

    def end(self) -> None:
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait(30)


def _carriers(agent: int, instance: str) -> list[psutil.Process]:
    """The children of an agent that carry this process instance in their environment."""
    found = []
    for child in psutil.Process(agent).children():
        with contextlib.suppress(psutil.Error):
            if child.environ().get(INSTANCE_VARIABLE) == instance:
                found.append(child)
    return found


def _last_owner(log: Path) -> str | None:
    """What a control process called itself when it became ready."""
    if not log.exists():
        return None
    owners = [line.split("owner=")[1].split()[0] for line in _lines(log) if "control is ready" in line]
    return owners[-1] if owners else None


def _lines(log: Path) -> list[str]:
    return log.read_text(errors="replace").splitlines()


@contextlib.contextmanager
def ground(
    *,
    frontends: int = 1,
    workers: int = 1,
    controls: int = 0,
    scaled: bool = True,
    more: Mapping[str, str] | None = None,
) -> Iterator[Ground]:
    """Shared servers, so many frontends, workers that know all of them, and control processes beside."""
    with open_folder() as folder:
        cluster = Cluster(folder / "cluster", {**(SCALED_WINDOWS if scaled else {}), **FAULT, **(more or {})})
        made = Ground(cluster)
        try:
            cluster.servers()
            with ThreadPoolExecutor(frontends) as beside:
                made.frontends += beside.map(cluster.frontend, [f"frontend-{number}" for number in range(frontends)])
            made.workers += [cluster.worker(f"worker-{number}", *made.frontends) for number in range(workers)]
            made.front.wait_for_nodes(workers)
            for _ in range(controls):
                made.start_control()
            yield made
        finally:
            made.end()


def pause(seconds: float) -> None:
    """Let time go by."""
    threading.Event().wait(seconds)


def ended(processes: list[psutil.Process], limit_s: float = 60.0) -> bool:
    """Whether all of them end within the limit; returns as soon as they have. One that nobody reaped has ended."""
    until = time.monotonic() + limit_s
    while any(map(alive, processes)):
        if time.monotonic() > until:
            return False
        pause(0.005)
    return True


def servers_named(name: str) -> list[psutil.Process]:
    """The processes of a server that this run has started."""
    found = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if name in Path(process.exe()).name or name in process.name():
                found.append(process)
    assert found, f"no process {name}"
    return found


@contextlib.contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    """None of them runs inside the block."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()
