"""An agent's incarnation inside the test process, with a frontend beside it: its processes are real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from localai.clock import boottime
from localai.ids import new_id
from localai.jobs.operation_rules import Order
from localai.settings import Settings
from tests.integration.worker_agent.fake_frontend import TOKEN, FakeFrontend
from tests.loopback import free_port
from worker_agent.addresses import Addresses
from worker_agent.agent import Agent, Place
from worker_agent.ending import Ending
from worker_agent.files.digests import DigestCache
from worker_agent.files.staged_files import StagedFiles
from worker_agent.folders import Folders
from worker_agent.frontends import Frontends
from worker_agent.hooks import Hooks
from worker_agent.processes.confinement import Confinement
from worker_agent.registration import description
from worker_agent.telemetry.figures import Figures
from worker_agent.telemetry.model_memory import ModelMemoryReading

#: Windows small enough to be waited for, in the proportions of the defaults.
WINDOWS: dict[str, Any] = {
    "job_lease_ttl_s": 2.0,
    "worker_kill_ttl_s": 6.0,
    "stop_window_s": 12.0,
    "adopt_window_s": 1.0,
    "operation_report_interval_s": 0.5,
    "job_sweep_interval_s": 0.25,
    "heartbeat_interval_s": 0.5,
    "health_interval_s": 0.2,
    "stop_grace_s": 2.0,
}


def settings_for(folder: Path, *urls: str, **changes: Any) -> Settings:
    """Valid settings of an agent on loopback."""
    port = free_port()
    values: dict[str, Any] = {
        **WINDOWS,
        "data_path": folder / "worker",
        "register_to": urls,
        "registration_token": TOKEN,
        "broker_url": "stub://",
        "node_name": "node-a",
        "serve_addr": f"127.0.0.1:{port}",
        "http_addr": f"127.0.0.1:{free_port()}",
        "enable_fault_backend": True,
        "threads": 1,
        **changes,
    }
    settings = Settings(**values)
    settings.check()
    return settings


def order(**changes: Any) -> Order:
    """A valid order for a model without files."""
    values: dict[str, Any] = {
        "job_id": new_id(),
        "op_generation": 1,
        "kind": "model.load",
        "model": "m",
        "slot": 0,
        "backend": "fault",
        "identity": "m",
        "model_file": None,
        "files": (),
        "model_options": {},
        "file_fields": {},
        "env": {},
        "deadline_s": 600.0,
        "install_timeout_s": 300.0,
        "start_timeout_s": 60.0,
        "load_timeout_s": 60.0,
        "load_timeout_reason": "5m for a model of unknown size",
        "stall_window_s": 5.0,
        **changes,
    }
    return Order(**values)


def faults(*options: str) -> dict[str, Any]:
    """Model options that ask the fault backend for something."""
    return {"Options": list(options)}


@dataclass
class Rig:
    """One incarnation and its frontend."""

    agent: Agent
    frontend: FakeFrontend
    folders: Folders
    ending: Ending

    def run(self, wanted: Order) -> Order:
        """Put an order there and wake the agent for it."""
        self.frontend.orders[(wanted.job_id, wanted.op_generation)] = wanted
        self.wake(wanted)
        return wanted

    def wake(self, wanted: Order) -> None:
        """The queue message of an order."""
        self.agent.runner.submit(wanted.job_id, wanted.op_generation)


MakeRig = Callable[..., Rig]


@pytest.fixture
def frontend(tmp_path: Path) -> Iterator[FakeFrontend]:
    files = tmp_path / "frontend-models"
    files.mkdir()
    fake = FakeFrontend(files)
    try:
        yield fake
    finally:
        fake.close()


@pytest.fixture
def make_rig(frontend: FakeFrontend, tmp_path: Path) -> Iterator[MakeRig]:
    """Builds a started incarnation; everything it started is ended with the test."""
    with ExitStack() as stack:

        def make(hooks: Hooks | None = None, urls: tuple[str, ...] | None = None, **changes: Any) -> Rig:
            settings = settings_for(tmp_path, *(urls or (frontend.url,)), **changes)
            folders, addresses = Folders.of(settings), Addresses.of(settings, "localhost")
            folders.make()
            frontends = Frontends(settings.register_to, registration_token=TOKEN, timeout_s=2.0, clock=boottime)
            stack.callback(frontends.close)
            digests = DigestCache(folders.models / ".digests.json")
            staged_files, model_memory = StagedFiles(folders.models, digests), ModelMemoryReading()
            figures = Figures.of_this_machine(folders.models, staged_files, model_memory)
            registered = frontends.register(description(settings, addresses, "host", figures(), "secret-of-host"))
            frontends.use_credential(registered.node_token)
            ending = Ending()
            place = Place(
                settings=settings,
                folders=folders,
                addresses=addresses,
                frontends=frontends,
                figures=figures,
                digests=digests,
                staged_files=staged_files,
                model_memory=model_memory,
                ending=ending,
                hooks=hooks or Hooks(),
                confinement=Confinement.of(settings, folders),
                used_ports=(),
            )
            agent = Agent(place, registered)
            agent.start()
            stack.callback(agent.end)
            return Rig(agent, frontend, folders, ending)

        yield make


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    return make_rig()
