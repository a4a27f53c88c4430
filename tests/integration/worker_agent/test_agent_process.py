"""The agent as a process of its own: how it begins, what its death leaves, how it ends, and what its exit says."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
import sysconfig
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from localai.bus.nats import NatsBus, ThreadDelivery
from localai.clock import boottime
from localai.ids import JobId, NodeId
from localai.jobs.operation_rules import Answer, Cause, OpState, Order, StopAnswer, StopOutcome, StopRequest
from localai.settings import Settings
from tasks.broker import make_broker
from tasks.enqueue import DramatiqWakeups
from tests.embedded_servers import clean_environment
from tests.integration.worker_agent.conftest import faults, order, settings_for
from tests.integration.worker_agent.fake_frontend import LIMIT_S, FakeFrontend
from tests.integration.worker_agent.spy import closed_above, lay_spy, open_interpreter
from tests.loopback import NatsServer, ValkeyServer, eventually, free_port
from worker_agent import ending
from worker_agent.processes import journal, proc_table
from worker_agent.processes.launcher import landlock_version

pytestmark = pytest.mark.integration

MAIN = ["-m", "worker_agent.main"]


class AgentProcess:
    """One running agent."""

    def __init__(self, settings: Settings, arguments: list[str], python: str = sys.executable, **environ: str) -> None:
        self.settings = settings
        self.popen = subprocess.Popen(
            [python, *arguments],
            env=clean_environment({**settings.environ(), **environ}),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stderr is not None
        self.lines.extend(self.popen.stderr)

    def exit_code(self) -> int:
        """Wait for the end."""
        code = self.popen.wait(LIMIT_S)
        self._reader.join(LIMIT_S)
        return code

    def children(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.popen.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def get(self, path: str) -> tuple[int, str]:
        url = f"http://{self.settings.http_addr}{path}"
        try:
            with urllib.request.urlopen(url, timeout=LIMIT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)


class Machine:
    """One frontend, one queue, and the agents a test starts on them."""

    def __init__(self, frontend: FakeFrontend, valkey: ValkeyServer, folder: Path, stack: ExitStack) -> None:
        self.frontend = frontend
        self.folder = folder
        self._valkey = valkey
        self._stack = stack
        self._broker = make_broker(valkey.url)
        stack.callback(self._broker.close)
        self._wakeups = DramatiqWakeups(self._broker)
        self.settings = settings_for(folder, frontend.url, broker_url=valkey.url)

    def start(
        self, *, arguments: list[str] | None = None, settings: Settings | None = None, **environ: str
    ) -> AgentProcess:
        agent = AgentProcess(settings or self.settings, arguments or MAIN, **environ)
        self._stack.callback(_finish, agent)
        return agent

    def ready(self, agent: AgentProcess) -> AgentProcess:
        eventually(lambda: agent.get("/readyz")[0] == 200, f"readiness; it said {agent.lines}")
        return agent

    def send(self, wanted: Order) -> Order:
        """Write the row, then the message, as control does."""
        self.frontend.orders[(wanted.job_id, wanted.op_generation)] = wanted
        self._wakeups.send_order(NodeId(self.frontend.node_id), JobId(wanted.job_id), wanted.op_generation)
        return wanted

    def load(self, *options: str, model: str = "m") -> str:
        """Load a model; the instance of its process."""
        ready = self.frontend.wait_report(self.send(order(model=model, model_options=faults(*options))), OpState.READY)
        return ready.process_instance or ""


def _finish(agent: AgentProcess) -> None:
    if agent.popen.poll() is None:
        agent.popen.send_signal(signal.SIGCONT)
        agent.popen.terminate()
    agent.exit_code()
    assert agent.popen.stderr is not None
    agent.popen.stderr.close()


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def machine(frontend: FakeFrontend, valkey: ValkeyServer, tmp_path: Path) -> Iterator[Machine]:
    with ExitStack() as stack:
        yield Machine(frontend, valkey, tmp_path, stack)


def alive(instance: str) -> list[int]:
    return proc_table.carriers(frozenset({instance}))


def test_an_order_comes_by_the_queue_and_readyz_tells_when_orders_are_taken(machine: Machine) -> None:
    agent = machine.ready(machine.start())
    assert agent.get("/healthz") == (200, "ok\n")
    assert machine.load()
    note = json.loads((machine.folder / "worker" / "incarnation").read_text())
    assert note == {"node_id": machine.frontend.node_id, "name": "node-a", "incarnation": 1}
    body = machine.frontend.registrations[0]
    assert body["total_disk"] >= body["available_disk"] > 0
    assert body["total_ram"] > 0


def test_sc_05_sigterm_leaves_no_child_and_says_the_end(machine: Machine) -> None:
    agent = machine.ready(machine.start())
    instances = [machine.load(model=name) for name in ("a", "b")]
    instances.append(machine.load("ignore_sigterm:true", "fork_child:true", model="c"))
    loading = machine.send(order(model="d", model_options=faults("load_delay:10m")))
    machine.frontend.wait("four processes", lambda: len(machine.frontend.instances()) == 4)
    children = agent.children()
    began = boottime()
    agent.popen.terminate()
    assert agent.exit_code() == 0
    assert boottime() - began < 5 + 3  # 5 s, and room for a busy machine
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert machine.frontend.reports[-1].processes == ()
    assert machine.frontend.deregistered == [1]
    error = machine.frontend.wait_report(loading, OpState.ENDED).error
    assert error is not None
    assert error.cause == Cause.WORKER_RESTARTED
    assert not any(alive(instance) for instance in instances)


def test_sc_05_sigterm_while_the_process_is_paused_ends_it_when_it_goes_on(machine: Machine) -> None:
    """Any of its threads may get the signal then; the one that waits for the end must hear of it."""
    agent = machine.ready(machine.start())
    agent.popen.send_signal(signal.SIGSTOP)
    eventually(lambda: psutil.Process(agent.popen.pid).status() == psutil.STATUS_STOPPED, "the pause")
    agent.popen.terminate()
    agent.popen.send_signal(signal.SIGCONT)
    assert agent.exit_code() == 0
    assert machine.frontend.deregistered == [1]


def test_sc_02_after_kill_9_the_next_incarnation_ends_what_is_left_before_it_registers(machine: Machine) -> None:
    agent = machine.ready(machine.start())
    instance = machine.load("fork_child:true", "ignore_sigterm:true")
    leader = machine.frontend.reports[-1].processes[0].pid
    assert len(alive(instance)) == 2
    agent.popen.kill()
    agent.exit_code()
    eventually(lambda: not proc_table.is_alive(leader), "the leader died with the agent")
    assert alive(instance)  # its child did not
    seen: list[list[int]] = []
    machine.frontend.before_register = lambda: seen.append(alive(instance))
    machine.ready(machine.start())
    assert seen == [[]]
    assert journal.read(machine.folder / "worker" / "journal") == []


def test_c12_a_launcher_whose_agent_died_before_its_pid_was_journaled_runs_nothing(machine: Machine) -> None:
    # The hook waits for longer than a start takes: without the gate the process would run by then.
    script = (
        "import os, signal, sys, threading\n"
        "from worker_agent.hooks import Hooks\n"
        "from worker_agent.main import main\n"
        "def forked(instance):\n"
        "    threading.Event().wait(2)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(main(Hooks(forked=forked)))\n"
    )
    agent = machine.ready(machine.start(arguments=["-c", script]))
    machine.send(order())
    assert agent.exit_code() == -signal.SIGKILL
    (entry,) = journal.read(machine.folder / "worker" / "journal")
    assert entry.pid is None
    eventually(lambda: not alive(entry.instance), "the launcher saw the end of its pipe")
    assert "listening" not in (machine.folder / "worker" / "logs" / "m#0.err.log").read_text()


def test_i11_a_frozen_agent_runs_its_watchdog_before_anything_else_when_it_thaws(machine: Machine) -> None:
    agent = machine.ready(machine.start())
    wanted = machine.send(order(model_options=faults("load_delay:2s")))
    machine.frontend.wait("loading", machine.frontend.instances)
    agent.popen.send_signal(signal.SIGSTOP)
    frozen_at = boottime()
    eventually(lambda: boottime() - frozen_at > machine.settings.worker_kill_ttl_s + 0.5, "the kill TTL")
    agent.popen.send_signal(signal.SIGCONT)
    error = machine.frontend.wait_report(wanted, OpState.ENDED).error
    assert error is not None
    assert error.cause == Cause.OPERATION_KILLED
    states = {o.op_state for report in machine.frontend.reports for o in report.operations}
    assert OpState.READY not in states


def test_a_replaced_agent_ends_its_processes_and_exits_with_its_own_code(machine: Machine) -> None:
    agent = machine.ready(machine.start())
    instance = machine.load()
    machine.frontend.heartbeat_status = 409
    assert agent.exit_code() == ending.EXIT_REPLACED
    assert not alive(instance)


def test_an_agent_whose_node_is_unknown_begins_a_new_incarnation_without_its_old_processes(machine: Machine) -> None:
    agent = machine.ready(machine.start())
    instance = machine.load()
    machine.frontend.heartbeat_status = 404
    machine.frontend.before_register = lambda: setattr(machine.frontend, "heartbeat_status", 200)
    machine.frontend.wait("a second registration", lambda: len(machine.frontend.registrations) == 2)
    assert not alive(instance)
    machine.ready(agent)
    assert agent.popen.poll() is None


def test_a_pending_node_learns_that_it_was_approved(machine: Machine) -> None:
    machine.frontend.status = "pending"
    agent = machine.ready(machine.start())
    machine.frontend.status = "healthy"
    eventually(lambda: any("now=healthy" in line for line in agent.lines), "the approval in the log")


def refused(agent: AgentProcess) -> str:
    """The one line of an agent that did not start."""
    assert agent.exit_code() == ending.EXIT_REFUSED
    said = [line for line in agent.lines if line.startswith("localai worker: ")]
    assert len(said) == 1
    assert not any("Traceback" in line for line in agent.lines)
    return said[0]


def changed(settings: Settings, **changes: Any) -> Settings:
    return Settings(**{name: getattr(settings, name) for name, _ in Settings.specs()} | changes)


def test_a_port_in_use_is_one_clear_line(machine: Machine) -> None:
    machine.ready(machine.start())
    other = changed(machine.settings, data_path=machine.folder / "other")
    line = refused(machine.start(settings=other))
    assert machine.settings.http_addr.rpartition(":")[2] in line
    assert "in use" in line


def test_a_data_folder_in_use_is_one_clear_line_with_the_pid_of_its_user(machine: Machine) -> None:
    first = machine.ready(machine.start())
    other = changed(machine.settings, http_addr=f"127.0.0.1:{free_port()}")
    line = refused(machine.start(settings=other))
    assert f"pid {first.popen.pid}" in line


def test_an_unusable_data_folder_is_one_clear_line(machine: Machine) -> None:
    (machine.folder / "file").write_text("")
    line = refused(machine.start(settings=changed(machine.settings, data_path=machine.folder / "file" / "worker")))
    assert "cannot be used" in line


def test_a_wrong_registration_token_is_one_clear_line_without_the_token(machine: Machine) -> None:
    line = refused(machine.start(settings=changed(machine.settings, registration_token="wrong-token")))
    assert "LOCALAI_REGISTRATION_TOKEN" in line
    assert "wrong-token" not in line


@pytest.mark.parametrize(
    ("changes", "variable"),
    [
        ({"serve_addr": "203.0.113.1:5000"}, "LOCALAI_SERVE_ADDR"),
        ({"serve_addr": "nonsense"}, "LOCALAI_SERVE_ADDR"),
        ({"broker_url": "http://nowhere"}, "LOCALAI_BROKER_URL"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_clear_line_with_its_name(
    machine: Machine, changes: dict[str, Any], variable: str
) -> None:
    assert variable in refused(machine.start(settings=changed(machine.settings, **changes)))
    assert machine.frontend.registrations == []


@pytest.mark.parametrize("missing", ["register_to", "broker_url"])
def test_a_missing_setting_is_one_clear_line(machine: Machine, missing: str) -> None:
    empty: Any = () if missing == "register_to" else ""
    assert "is not set" in refused(machine.start(settings=changed(machine.settings, **{missing: empty})))


def test_an_agent_waits_for_its_frontend_and_ends_on_sigterm_meanwhile(machine: Machine) -> None:
    agent = machine.start(settings=changed(machine.settings, register_to=(f"http://127.0.0.1:{free_port()}",)))
    eventually(lambda: any("not registered yet" in line for line in agent.lines), "a try to register")
    assert agent.get("/healthz")[0] == 200
    assert agent.get("/readyz") == (503, "not ready: not registered with a frontend\n")
    agent.popen.terminate()
    assert agent.exit_code() == 0


def test_tq_03_the_queue_moves_again_after_each_death_of_the_broker(
    frontend: FakeFrontend, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    server = ValkeyServer(tmp_path_factory.mktemp("own-valkey"))
    server.start()
    with ExitStack() as stack:
        stack.callback(server.kill)
        machine = Machine(frontend, server, tmp_path, stack)
        machine.ready(machine.start())
        for number in range(2):
            server.kill()
            server.start()
            wanted = order(model=f"m{number}")
            frontend.orders[(wanted.job_id, 1)] = wanted

            def claimed(wanted: Order = wanted) -> bool:
                machine.send(wanted)  # as the sweep does while nobody claims
                return (wanted.job_id, 1) in frontend.claims

            eventually(claimed, "the order after a restart of the broker")
            frontend.wait_report(wanted, OpState.READY)


def test_an_exact_stop_comes_by_nats_and_is_answered_with_what_ended(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nats = NatsServer(tmp_path_factory.mktemp("nats"))
    nats.start()
    try:
        machine.ready(machine.start(settings=changed(machine.settings, nats_url=nats.url)))
        wanted = machine.send(order(model_options=faults("load_delay:10m")))
        machine.frontend.answers[(wanted.job_id, 1)] = Answer.WAIT
        instance = machine.frontend.wait("a process", machine.frontend.instances).copy().pop()
        link = NatsBus(nats.url, name="test", delivery=ThreadDelivery())
        try:
            eventually(link.connected, "the connection of the asking side")
            request = StopRequest(job_id=wanted.job_id, op_generation=1, process_key="m#0", process_instance=instance)
            body = link.request(machine.frontend.node_id, "model.stop", request.to_json(), LIMIT_S)
        finally:
            link.close()
        answer = StopAnswer.from_json(body)
        assert (answer.outcome, answer.incarnation) == (StopOutcome.TERMINATED, 1)
        assert list(answer.terminated) == [instance]
        assert not alive(instance)
    finally:
        nats.kill()


def test_an_agent_whose_parent_died_ends_with_its_processes(machine: Machine, tmp_path: Path) -> None:
    environ = clean_environment(machine.settings.environ())
    script = (
        "import os, subprocess, sys\n"
        "from localai.embedded import exec_step\n"
        "import signal\n"
        "command = exec_step.command([sys.executable, '-m', 'worker_agent.main'], death_signal=signal.SIGTERM)\n"
        "child = subprocess.Popen(command)\n"
        "print(child.pid, flush=True)\n"
        "child.wait()\n"
    )
    with (
        open(tmp_path / "agent.log", "w") as log,
        subprocess.Popen(
            [sys.executable, "-c", script], env=environ, stdout=subprocess.PIPE, stderr=log, text=True
        ) as parent,
    ):
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        instance = machine.load("ignore_sigterm:true", "fork_child:true")
        assert alive(instance)
        parent.kill()
        parent.wait(LIMIT_S)
        eventually(lambda: not proc_table.is_alive(pid) and not alive(instance), "nothing is left", limit_s=8)


def test_kill_9_of_the_agent_by_its_own_model_process_leaves_nothing_behind_for_long(machine: Machine) -> None:
    # With Landlock the kernel refuses the signal.
    agent = machine.ready(machine.start(settings=changed(machine.settings, backend_landlock=False)))
    wanted = machine.send(order(model_options=faults("kill_parent:true")))
    assert agent.exit_code() == -signal.SIGKILL
    machine.ready(machine.start())
    assert (wanted.job_id, 1) in machine.frontend.claims
    assert journal.read(machine.folder / "worker" / "journal") == []


def spied(machine: Machine, agent: AgentProcess, **asked: Any) -> tuple[psutil.Process, dict[str, Any]]:
    """Load the spy; its process, and what it said of what it can reach."""
    folder = machine.folder / "worker"
    lay_spy(folder / "backends" / "spy", json.dumps({"agent": agent.popen.pid, **asked}))
    wanted = machine.send(order(model="m", backend="spy", env={"MODEL_SECRET": "s"}))
    ready = machine.frontend.wait_report(wanted, OpState.READY)
    said = (folder / "logs" / "m#0.err.log").read_text()
    process = psutil.Process(alive(ready.process_instance or "")[0])
    return process, json.loads(next(line for line in said.splitlines() if line.startswith("SPY "))[4:])


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


SECRETS = ("node-secret", "journal", "incarnation", "logs", "models/other/weights", "backends/other/run.sh", "")


def secret_paths(folder: Path) -> list[str]:
    for name in ("models/other/weights", "backends/other/run.sh"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("x")
    (folder / "models" / "m").mkdir()
    (folder / "models" / "m" / "weights").write_text("x")
    return [str(folder / name) for name in SECRETS]


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are those of Linux")
def test_a_model_process_has_no_capability_no_core_dump_and_only_listed_variables(machine: Machine) -> None:
    agent = machine.ready(machine.start(SOME_TOKEN="t", OMP_NUM_THREADS="1", https_proxy="http://u:p@proxy:1"))
    worker = machine.folder / "worker"
    secrets = [*secret_paths(worker), f"/proc/{agent.popen.pid}/environ"]
    process, said = spied(machine, agent, reads=[*secrets, str(worker / "models/m/weights")], writes=[str(worker)])
    status = status_of(process.pid)
    caps = [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
    assert [int(text, 16) for text in caps[:3]] == [0, 0, 0] and int(caps[4], 16) == 0
    assert int(caps[3], 16) == 0 or os.geteuid() != 0
    assert status["NoNewPrivs"] == "1"
    limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
    assert next(line for line in limits if line.startswith("Max core")).split()[4:6] == ["0", "0"]
    names = set(process.environ())
    assert {"PATH", "OMP_NUM_THREADS", "MODEL_SECRET", "LOCALAI_PROCESS_INSTANCE"} <= names
    assert not {"SOME_TOKEN", "https_proxy"} & names
    assert not {name for name in names if name.startswith(("LOCALAI_NATS", "LOCALAI_BROKER", "LOCALAI_REG"))}
    assert said["opens its stderr again"] == "yes"
    if not landlock_version():
        pytest.skip("the rest needs Landlock, which this kernel does not have")
    assert {path: said["reads"][path] for path in secrets} == dict.fromkeys(secrets, "PermissionError")
    assert said["reads"][str(worker / "models/m/weights")] == "yes"
    assert list(said["writes"].values()) == ["PermissionError", "yes", "yes"]
    assert said["signals the agent"] == "PermissionError"
    scratch = process.environ()["TMPDIR"]
    assert Path(scratch).parent == worker / "scratch"
    process.kill()
    eventually(lambda: not Path(scratch).exists(), "the temporary files of an ended process are removed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's model processes run as another account")
def test_with_a_backend_user_model_processes_run_as_it_and_cannot_read_the_state_folder(
    machine: Machine, tmp_path: Path
) -> None:
    if (closed := closed_above(Path(sysconfig.get_path("purelib")))) is not None:
        pytest.skip(f"other accounts cannot pass {closed}, where the packages of the tests lie")
    account = pwd.getpwnam("nobody")
    python, environ = open_interpreter(tmp_path / "python")
    # Landlock would hide what the modes of files let through.
    settings = changed(machine.settings, backend_user="nobody", backend_landlock=False)
    agent = machine.ready(machine.start(settings=settings, python=python, **environ))
    worker = machine.folder / "worker"
    secrets = [*secret_paths(worker), f"/proc/{agent.popen.pid}/environ", "/etc/shadow"]
    secrets.remove(str(worker / "backends/other/run.sh"))  # a backend that the test put there, open to all
    (worker / "models/other").chmod(0o700)
    process, said = spied(machine, agent, reads=[*secrets, str(worker / "models/m/weights")], writes=[str(worker)])
    assert set(process.uids()) == {account.pw_uid} and set(process.gids()) == {account.pw_gid}
    status = status_of(process.pid)
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert {path: said["reads"][path] for path in secrets} == dict.fromkeys(secrets, "PermissionError")
    assert said["reads"][str(worker / "models/m/weights")] == "yes"
    assert list(said["writes"].values()) == ["PermissionError", "yes", "yes"]
    assert said["opens its stderr again"] == "yes"
    assert said["signals the agent"] == "PermissionError"
    agent.popen.terminate()
    assert agent.exit_code() == 0
    assert not process.is_running()
