"""Real NATS and Valkey servers on loopback, one process each, that a test may kill, freeze and start again."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from localai.clock import boottime
from localai.embedded import binaries, valkey

#: Two cores may be shared with everything else on the machine.
LIMIT_S = 60.0


def eventually(condition: Callable[[], object], what: str = "the condition", limit_s: float = LIMIT_S) -> None:
    """Wait until ``condition`` is true. Fails with ``what`` after the limit."""
    pause, deadline = threading.Event(), boottime() + limit_s
    while not condition():
        assert boottime() < deadline, f"{what} was not seen within {limit_s:g} s"
        pause.wait(0.02)


def free_port() -> int:
    """A port of loopback that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LoopbackServer:
    """One server process. It keeps its port, so that a client finds it again after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self.listens, f"a server on port {self.port}")

    def listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """End it at once; nothing is said to anybody."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it without ending it: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def reload(self) -> None:
        """Let it read its configuration again."""
        self._signal(signal.SIGHUP)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)


class NatsServer(LoopbackServer):
    """NATS with one token, and whatever else ``configure`` was given."""

    def __init__(self, folder: Path, token: str = "letmein") -> None:
        super().__init__(folder)
        self.token = token
        self.configure(f'authorization {{ token: "{token}" }}')

    @property
    def url(self) -> str:
        return f"nats://{self.token}@127.0.0.1:{self.port}"

    @property
    def bare_url(self) -> str:
        """The same without credentials."""
        return f"nats://127.0.0.1:{self.port}"

    def configure(self, authorization: str) -> None:
        (self.folder / "nats.conf").write_text(f'listen: "127.0.0.1:{self.port}"\n{authorization}\n')

    def command(self) -> Sequence[str]:
        return [str(binaries.nats().path), "-c", str(self.folder / "nats.conf")]


class ValkeyServer(LoopbackServer):
    """Valkey without persistence, with a password, and a user with the rights that `localai up` gives a frontend."""

    @property
    def url(self) -> str:
        return f"redis://:letmein@127.0.0.1:{self.port}/0"

    @property
    def frontend_url(self) -> str:
        return f"redis://frontend:letmein@127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str]:
        options = {"bind": "127.0.0.1", "port": str(self.port), "requirepass": "letmein", "save": "", "dir": "."}
        flags = [part for name, value in options.items() for part in (f"--{name}", value)]
        user = ["--user", "frontend", "reset", "on", ">letmein", *valkey.frontend_rights().split()]
        return [str(binaries.valkey().path), *flags, *user]
