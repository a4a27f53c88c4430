"""Backends as real processes: laid out as the agent does it, started by run.sh, asked over gRPC."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from localai.backends import catalogue, layout
from protos import backend_pb2_grpc
from worker_agent.install.environment import LOCKED

#: Generous: the machine may be busy, and every wait ends as soon as what it waits for happens.
LIMIT_S = 60
#: A cancelled call frees its slot within 2 s on a quiet machine; the calls that are cancelled would last minutes here.
CANCEL_LIMIT_S = 8
_LISTENING = re.compile(r"listening on (\S+)")


@dataclass
class Running:
    """One backend process; its stderr lines are kept in order."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    #: Known once it is connected to.
    address: str = ""
    _arrived: queue.Queue[str | None] = field(default_factory=queue.Queue)
    _channel: grpc.Channel | None = None

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))
            self._arrived.put(line)
        self._arrived.put(None)

    def line(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """The first match of a line of stderr that has not been waited for yet."""
        while (text := self._arrived.get(timeout=LIMIT_S)) is not None:
            if match := re.search(pattern, text):
                return match
        raise AssertionError(f"the process ended without the line {pattern!r}; stderr: {self.lines}")

    def connect(self) -> backend_pb2_grpc.BackendStub:
        """The stub of the process, once it listens."""
        if self._channel is None:
            self.address = self.line(_LISTENING)[1]
            self._channel = grpc.insecure_channel(self.address)
        return backend_pb2_grpc.BackendStub(self._channel)

    def wait(self) -> int:
        """The exit code, once the process has ended."""
        return self.process.wait(LIMIT_S)

    def end(self) -> None:
        """Kill the whole group and let go of what belongs to it."""
        if self._channel is not None:
            self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        if self.process.stderr is not None:
            self.process.stderr.close()


Start = Callable[..., Running]


def start_process(folder: Path, *, address: str = "127.0.0.1:0", **environment: str) -> Running:
    """Start the backend of a folder as the agent does, in a process group of its own."""
    process = subprocess.Popen(
        [str(folder / "run.sh"), "--addr", address],
        cwd=folder,
        env=os.environ | {"LOCALAI_PYTHON": sys.executable} | environment,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return Running(process)


@pytest.fixture(scope="session")
def fault_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backends") / "fault"
    folder.mkdir()
    layout.lay_out(catalogue.find("fault", enable_fault=True), folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The llama-cpp backend in an environment of its own."""
    return _with_environment("llama-cpp", tmp_path_factory)


@pytest.fixture(scope="session")
def minilm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The minilm backend in an environment of its own."""
    return _with_environment("minilm", tmp_path_factory)


def _with_environment(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backend laid out, with the environment made from its pinned requirements."""
    entry = catalogue.find(name, enable_fault=False)
    folder = tmp_path_factory.mktemp("backends") / entry.name
    folder.mkdir()
    layout.lay_out(entry, folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *LOCKED, "-r", str(entry.lock)], check=True)
    return folder


@pytest.fixture
def start(fault_folder: Path) -> Iterator[Start]:
    """Start the fault backend with options, as many times as the test likes."""
    running: list[Running] = []

    def start_one(*options: str, address: str = "127.0.0.1:0", **environment: str) -> Running:
        environment["LOCALAI_FAULT_OPTIONS"] = "\n".join(options)
        one = start_process(fault_folder, address=address, **environment)
        running.append(one)
        return one

    yield start_one
    for one in running:
        one.end()
