"""The three embedded servers as a user starts them, for tests that need real ones."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg2
from psycopg2 import sql

from localai.embedded import credentials, env_file, exec_step
from localai.embedded.credentials import DATABASE_OWNER, OWNER
from localai.ids import new_id
from tests.loopback import LIMIT_S, eventually

ROOT = Path(__file__).resolve().parents[1]


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without settings that a developer's shell may hold; this source tree is imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCALAI_") and name != "API_KEY"}
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH", ""))))
    return {**kept, "PYTHONPATH": path, **(extra or {})}


def localai_command(*arguments: str) -> list[str]:
    """The command line of `localai`. It ends with this process, however that ends."""
    return exec_step.command([sys.executable, "-m", "localai.cli", *arguments], death_signal=signal.SIGTERM)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that every account may pass through: root's servers run as another one."""
    folder = Path(tempfile.mkdtemp(prefix="localai-test-"))
    folder.chmod(0o711)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Servers:
    """URLs of running servers: those of frontends, of workers, and of the owners, which no process of ours gets."""

    database_url: str
    nats_url: str
    broker_url: str
    worker_nats_url: str
    worker_broker_url: str
    owner_database_url: str
    owner_broker_url: str

    @contextmanager
    def new_database(self) -> Iterator[str]:
        """The URL of an empty database that is dropped afterwards."""
        name = f"test_{new_id().replace('-', '')}"
        self._run(sql.SQL("CREATE DATABASE {} OWNER localai").format(sql.Identifier(name)))
        try:
            yield urlsplit(self.database_url)._replace(path=f"/{name}").geturl()
        finally:
            self._run(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, statement: sql.Composed) -> None:
        connection = psycopg2.connect(self.owner_database_url)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
        finally:
            connection.close()


@contextmanager
def started_servers() -> Iterator[Servers]:
    """`localai up --servers-only` in a folder of its own."""
    with open_folder() as folder:
        state, log = folder / "state", folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                localai_command("up", "--servers-only", "--state-dir", str(state)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=clean_environment(),
            )
        try:
            eventually(lambda: _written(process, state / "env", log), "the servers' URLs", LIMIT_S)
            yield servers_of(state)
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def servers_of(state: Path) -> Servers:
    """The URLs of the servers that run in this state folder."""
    values, kept = env_file.read(state / "env"), credentials.load_or_draw(state / "secrets.json")
    owner = f"{DATABASE_OWNER}:{kept.postgres_owner_password}@127.0.0.1:{kept.postgres_port}"
    return Servers(
        database_url=values["LOCALAI_AUTH_DATABASE_URL"],
        nats_url=values["LOCALAI_NATS_URL"],
        broker_url=values["LOCALAI_BROKER_URL"],
        worker_nats_url=values["LOCALAI_WORKER_NATS_URL"],
        worker_broker_url=values["LOCALAI_WORKER_BROKER_URL"],
        owner_database_url=f"postgresql://{owner}/postgres",
        owner_broker_url=f"redis://{OWNER}:{kept.valkey_owner_password}@127.0.0.1:{kept.valkey_port}/0",
    )


def _written(process: subprocess.Popen[bytes], path: Path, log: Path) -> bool:
    if process.poll() is not None:
        raise AssertionError(f"the servers ended with {process.returncode}:\n{log.read_text()}")
    return path.exists()
