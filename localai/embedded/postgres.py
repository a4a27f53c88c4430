"""The embedded PostgreSQL: its cluster, made once, and its process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from localai.embedded import database_roles, exec_step, pid_file_rules
from localai.embedded.account import Account, give
from localai.embedded.children import Child
from localai.embedded.credentials import DATABASE_OWNER, Credentials
from localai.embedded.pid_file_rules import Holder, PidFile
from localai.embedded.process import last_lines, open_log
from localai.embedded.state_folder import StateFolder, server_folder
from localai.errors import StartRefused

#: Frontends, control processes, tests: each has a small pool.
MAX_CONNECTIONS = 200
#: Long enough for the recovery after a crash with much to replay.
READY_LIMIT_S = 120.0
_INITDB_LIMIT_S = 120.0
NAME = "postgres"


def prepare(
    folder: StateFolder, program: Path, credentials: Credentials, account: Account | None, say: Callable[[str], None]
) -> Child:
    """The server as a child; the first time its data folder is made. Raises StartRefused. Main thread only."""
    data = folder.server(NAME)
    if not (data / "PG_VERSION").exists():
        say("making the database (once)")
        _initdb(folder, program.with_name("initdb"), credentials, account)
    server_folder(data, account)
    return Child(
        name=NAME,
        argv=(str(program), "-D", str(data), *_options(credentials.postgres_port)),
        env=_environment(),
        cwd=data,
        log=folder.log(NAME),
        account=account,
        ready=partial(database_roles.settled, credentials, say),
        ready_limit_s=READY_LIMIT_S,
        before_start=partial(clear_pid_file, data),
        # Fast shutdown. SIGTERM would wait for every pooled connection to end by itself.
        stop_signal=signal.SIGINT,
        parent_death_signal=signal.SIGINT,
        stop_timeout_s=30.0,
    )


def _options(port: int) -> list[str]:
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        # No Unix socket: its path is limited to 107 bytes, and a state folder may be anywhere.
        "unix_socket_directories": "",
        "max_connections": str(MAX_CONNECTIONS),
        "log_line_prefix": "%m [%p] ",
    }
    return [word for name, value in options.items() for word in ("-c", f"{name}={value}")]


def _environment() -> dict[str, str]:
    """Nothing of the caller's: PGDATA, PGPORT and locales of a user's shell must not reach the server."""
    kept = {name: os.environ[name] for name in ("PATH", "TZ") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


def _initdb(folder: StateFolder, program: Path, credentials: Credentials, account: Account | None) -> None:
    """Make the cluster under another name and rename it: a cluster is whole or absent."""
    data, fresh = folder.server(NAME), folder.server(NAME + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    server_folder(fresh, account)
    log = folder.log(NAME)
    with tempfile.NamedTemporaryFile("w", dir=folder.path, prefix=".pwfile.") as password:
        password.write(credentials.postgres_owner_password + "\n")
        password.flush()
        give(Path(password.name), account)
        argv = [str(program), "-D", str(fresh), "--username", DATABASE_OWNER, "--pwfile", password.name]
        argv += ["--auth", "scram-sha-256", "--locale", "C", "--encoding", "UTF8"]
        code = _run(exec_step.command(argv, death_signal=signal.SIGKILL, account=account), fresh, log)
    if code != 0:
        tail = "\n  ".join(last_lines(log, 5))
        raise StartRefused(f"initdb ended with {code} (log: {log})\n  {tail}")
    try:
        fresh.rename(data)  # also over an empty folder
    except OSError as error:
        raise StartRefused(f"{data} is no database and cannot be replaced by one: {error.strerror}") from None


def _run(command: list[str], cwd: Path, log: Path) -> int:
    output = open_log(log)
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=_INITDB_LIMIT_S,
            start_new_session=True,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        raise StartRefused(f"initdb did not end within {_INITDB_LIMIT_S:.0f} s (log: {log})") from None
    except OSError as error:  # the interpreter itself, such as one in a home that is closed to this account
        raise StartRefused(f"initdb cannot be started: {error.filename or command[0]}: {error.strerror}") from None
    finally:
        os.close(output)


def clear_pid_file(data: Path) -> None:
    """Remove a pid file whose pid means somebody else, and stop a server that outlived its supervisor."""
    file = data / "postmaster.pid"
    try:
        pid = pid_file_rules.pid_of(file.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return
    match pid_file_rules.judge(None if pid is None else _holder(pid), data.resolve()):
        case PidFile.REMOVE:
            file.unlink(missing_ok=True)
        case PidFile.STOP_LEFTOVER:
            assert pid is not None
            # The start that follows fails until it has gone, and is tried again.
            os.kill(pid, signal.SIGINT)
        case PidFile.KEEP:
            return


def _holder(pid: int) -> Holder | None:
    import psutil  # only needed when a server was not stopped

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            name, zombie = process.name(), process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    try:
        return Holder(name=name, zombie=zombie, cwd=Path(process.cwd()))
    except (psutil.AccessDenied, psutil.ZombieProcess, psutil.NoSuchProcess):
        return Holder(name=name, zombie=zombie, cwd=None)
