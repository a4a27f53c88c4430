"""How is a row of the crash table tried: one real `localai up`, one process that kills itself, and what is left after?"""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

from localai.crash_points import AGENT, CONTROL, REACHED
from localai.db.engine import make_engine
from localai.db.unit_of_work import units_of
from localai.embedded import env_file
from localai.settings import parse_duration
from tests.acceptance.cluster import SCALED_WINDOWS, Cluster, Frontend, processes_below, wait_for
from tests.acceptance.crash_table import ANSWER, CUT, Case, Way
from tests.simulator.checker import assert_clean
from tests.simulator.history import Bounds
from tests.simulator.pg_history import read_history

#: A child that ends again and again is started later each time: after so many ends everything is started anew.
KILLS_OF_ONE_CHILD = 4
#: The backend of cases in which it is not installed: another name, so that nobody else needs it.
OTHER_BACKEND = "fault-slow"
FILE_BYTES = 256 * 1024

_QUIET = """
SELECT (SELECT count(*) FROM jobs WHERE state IN ('queued', 'running')) AS live,
       (SELECT count(*) FROM jobs WHERE stop_state = 'pending') AS pending,
       (SELECT count(*) FROM jobs WHERE hold_until > clock_timestamp()) AS held,
       (SELECT count(*) FROM replicas) AS replicas
"""


def is_model_process(process: psutil.Process) -> bool:
    try:
        line = process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
    return any(word.endswith("backend.py") for word in line) and "--addr" in line


def _has_child(process: psutil.Process) -> bool:
    try:
        return bool(process.children())
    except psutil.NoSuchProcess:
        return False


@dataclass
class Asked:
    """A request on a thread of its own, and what its client was told."""

    thread: threading.Thread
    told: list[str]

    def outcome(self) -> str:
        self.thread.join(120)
        assert self.told, "a client waits for ever"
        return self.told[0]


class Sweep:
    """One cluster for many rows; started anew in the same folder where a child has died too often."""

    def __init__(self, folder: Path) -> None:
        self._point = folder / "crash-point"
        variables = {
            **SCALED_WINDOWS,
            "LOCALAI_ENABLE_FAULT_BACKEND": "true",
            "LOCALAI_CRASH_POINT_FILE": str(self._point),
        }
        self.cluster = Cluster(folder / "cluster", variables)
        self._up: Frontend | None = None
        self._kills: Counter[str] = Counter()
        self._number = 0

    def close(self) -> None:
        self.cluster.close()

    def run(self, case: Case) -> str:
        """Try one row. What the client was told; raises AssertionError where anything is not as the row says."""
        try:
            return self._run(case)
        except BaseException:
            # The next row gets processes that know nothing of this one.
            self._point.unlink(missing_ok=True)
            self._kills[CONTROL] = KILLS_OF_ONE_CHILD
            raise

    def _run(self, case: Case) -> str:
        up = self._running(case)
        model, told = _WAYS[case.way](self, up, case)
        assert told in case.client, f"the client was told {told!r}"
        if case.way is not Way.REFUSED:
            up.chat_until_answered(model)
            wait_for("exactly one model process", lambda: len(self.model_processes(up)) == 1)
        loads = tuple(_end_of(job) for job in reversed(up.jobs(kind="model.load", subject=model)))
        assert loads in case.loads, f"the attempts are {loads}"
        self.unload(up, model)
        wait_for("no model process", lambda: not self.model_processes(up))
        self._quiet()
        return told

    # Steps of the ways

    def config(self, up: Frontend, *options: str, backend: str = "fault", file: bool = False) -> str:
        """A model that nobody asked for yet."""
        self._number += 1
        name = f"crash-{self._number}"
        keys: dict[str, Any] = {}
        if file:
            self.cluster.models.mkdir(parents=True, exist_ok=True)
            (self.cluster.models / f"{name}.bin").write_bytes(os.urandom(FILE_BYTES))
            keys["parameters"] = {"model": f"{name}.bin"}
        self.cluster.model(name, backend, *options, **keys)
        up.wait_for_model(name)
        return name

    def remove_backend(self) -> None:
        for folder in (self.cluster.state_dir / "worker" / "backends").glob(f"*{OTHER_BACKEND}*"):
            shutil.rmtree(folder) if folder.is_dir() else folder.unlink()

    def arm(self, case: Case) -> None:
        temporary = self._point.with_suffix(".tmp")
        temporary.write_text(case.point)
        temporary.rename(self._point)

    def wait_reached(self, case: Case) -> None:
        """Some process has come to the point, and died there."""
        reached = self._point.with_name(self._point.name + REACHED)
        try:
            wait_for(f"{case.point} reached", reached.exists, 60)
        except AssertionError:
            self._point.unlink(missing_ok=True)
            raise
        reached.unlink()
        for process in (AGENT, CONTROL):
            self._kills[process] += process in case.process

    def wait_loading(self, up: Frontend) -> psutil.Process:
        """The model process in the middle of LoadModel, which began with a child (`fork_child`)."""

        def loading() -> psutil.Process | None:
            return next((one for one in self.model_processes(up) if _has_child(one)), None)

        return wait_for("a model process in LoadModel", loading)

    def wait_process(self, up: Frontend) -> psutil.Process:
        return wait_for("a model process", lambda: next(iter(self.model_processes(up)), None))

    def kill_control(self, up: Frontend) -> None:
        up.process.child("tasks.control").kill()
        self._kills[CONTROL] += 1

    # The cluster

    def _running(self, case: Case) -> Frontend:
        """The cluster; a fresh start where the next death of a child would cost seconds of back-off."""
        if self._up is not None and max(self._kills.values(), default=0) >= KILLS_OF_ONE_CHILD:
            ending, self._up = self._up, None
            assert ending.process.stop() == 0
        if self._up is None:
            self._kills.clear()
            self._up = self.cluster.up(f"up-{self._number}")
        up = self._up
        up.wait_for_nodes(1)
        return up

    @staticmethod
    def model_processes(up: Frontend) -> list[psutil.Process]:
        return [process for process in processes_below(up.process.pid) if is_model_process(process)]

    @staticmethod
    def unload(up: Frontend, model: str) -> None:
        def asked() -> bool:
            return _status_of(lambda: up.post("/backend/shutdown", {"model": model})) in (200, 202)

        wait_for(f"the unload of {model} taken", asked)

    def _quiet(self) -> None:
        """Nothing lives on, and the history of everything so far is clean."""
        url = env_file.read(self.cluster.state_dir / "env")["LOCALAI_AUTH_DATABASE_URL"]
        engine = make_engine(url, application="crash-sweep", pool_size=1)
        try:
            open_unit = units_of(engine)

            def nothing_left() -> bool:
                with open_unit() as uow:
                    return not any(uow.execute(_QUIET).one())

            wait_for("no live job, pending stop, hold or replica", nothing_left)
            assert_clean(read_history(open_unit, _bounds()))
        finally:
            engine.dispose()


def _bounds() -> Bounds:
    seconds = {name: parse_duration(text) for name, text in SCALED_WINDOWS.items()}
    return Bounds(
        stop_s=seconds["LOCALAI_STOP_WINDOW"],
        report_s=seconds["LOCALAI_REPORT_WINDOW"],
        kill_ttl_s=seconds["LOCALAI_WORKER_KILL_TTL"],
    )


def _end_of(job: dict[str, Any]) -> str:
    assert job["attempts"] <= 1, f"a load was taken {job['attempts']} times"
    return f"{job['state']} {job['error_cause']}" if job["state"] == "failed" else str(job["state"])


def _status_of(ask: Callable[[], httpx2.Response]) -> int | None:
    try:
        return ask().status_code
    except httpx2.TransportError:
        return None


def _ask(up: Frontend, model: str) -> Asked:
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(_told(up, model)), daemon=True)
    thread.start()
    return Asked(thread, told)


def _told(up: Frontend, model: str) -> str:
    """What the first client of a model is told, in the words of the table."""
    try:
        response = up.chat(model)
    except httpx2.TransportError:
        return CUT
    body = response.json()
    if response.status_code == 200:
        return ANSWER if model in response.text else f"an answer of another model: {response.text}"
    cause = body.get("loading", {}).get("error_cause") or body["error"]["code"]
    return f"{response.status_code} {cause}"


# One function for each way: it leads to the point, and returns the model and what the client was told.


def _first(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    return _through(sweep, up, case, sweep.config(up, "load_delay:1s"))


def _through(sweep: Sweep, up: Frontend, case: Case, model: str) -> tuple[str, str]:
    sweep.arm(case)
    asked = _ask(up, model)
    sweep.wait_reached(case)
    return model, asked.outcome()


def _backend(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    sweep.remove_backend()
    return _through(sweep, up, case, sweep.config(up, backend=OTHER_BACKEND))


def _file(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    return _through(sweep, up, case, sweep.config(up, file=True))


def _refused(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    return _through(sweep, up, case, sweep.config(up, "load_fail:no"))


def _adopted(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    model = sweep.config(up, "load_delay:3s", "fork_child:true")
    asked = _ask(up, model)
    sweep.wait_loading(up)
    sweep.arm(case)
    sweep.kill_control(up)
    sweep.wait_reached(case)
    return model, asked.outcome()


def _released(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    model = sweep.config(up, "load_delay:3s", "fork_child:true")
    asked = _ask(up, model)
    sweep.wait_loading(up)
    sweep.arm(case)
    up.process.child("tasks.control").terminate()
    sweep.wait_reached(case)
    return model, asked.outcome()


def _cancel(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    model = sweep.config(up, "load_delay:120s", "fork_child:true")
    asked = _ask(up, model)
    sweep.wait_loading(up)
    sweep.arm(case)
    _until_cancelled(up, model)
    sweep.wait_reached(case)
    _without_delay(sweep, up, model)
    return model, asked.outcome()


def _without_delay(sweep: Sweep, up: Frontend, model: str) -> None:
    """The next attempt need not wait; returns when the frontend knows that."""
    before = _revision(up, model)
    sweep.cluster.model(model, "fault")
    wait_for(f"the edit of {model} known", lambda: _revision(up, model) not in (None, before))


def _revision(up: Frontend, model: str) -> str | None:
    try:
        listed = up.get("/api/models").json()["models"]
    except httpx2.TransportError:
        return None
    return next((str(one["config_revision"]) for one in listed if one["name"] == model), None)


def _until_cancelled(up: Frontend, model: str) -> None:
    """Ask until the row says so, as a person whose connection broke does."""

    def cancelled() -> bool:
        try:
            (job,) = up.jobs(kind="model.load", subject=model)
        except httpx2.TransportError:
            return False
        assert job["state"] in ("running", "cancelled"), f"the load has {job['state']}"
        if job["state"] != "cancelled":
            _status_of(lambda: up.post(f"/api/models/{model}/load-cancel", {"job_id": job["id"]}))
        return bool(job["state"] == "cancelled")

    wait_for(f"{model} cancelled", cancelled)


def _unload(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    model = sweep.config(up)
    up.chat_until_answered(model)
    sweep.arm(case)
    told = ANSWER if _status_of(lambda: up.post("/backend/shutdown", {"model": model})) == 202 else CUT
    sweep.wait_reached(case)
    sweep.unload(up, model)
    wait_for("no model process", lambda: not sweep.model_processes(up))
    return model, told


def _process_starts(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    model = sweep.config(up, "bind_delay:10s")
    asked = _ask(up, model)
    sweep.wait_process(up).kill()
    _without_delay(sweep, up, model)
    return model, asked.outcome()


def _process_loads(sweep: Sweep, up: Frontend, case: Case) -> tuple[str, str]:
    model = sweep.config(up, "load_delay:3s", "fork_child:true")
    asked = _ask(up, model)
    sweep.wait_loading(up).kill()
    return model, asked.outcome()


_WAYS: dict[Way, Callable[[Sweep, Frontend, Case], tuple[str, str]]] = {
    Way.FIRST: _first,
    Way.BACKEND: _backend,
    Way.FILE: _file,
    Way.REFUSED: _refused,
    Way.ADOPTED: _adopted,
    Way.RELEASED: _released,
    Way.CANCEL: _cancel,
    Way.UNLOAD: _unload,
    Way.PROCESS_STARTS: _process_starts,
    Way.PROCESS_LOADS: _process_loads,
}
