"""How a model process is started, waited for until it answers, and ended with all others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localai import logs
from localai.errors import OperationFailed
from localai.ids import new_id
from localai.inference import process_secrets
from localai.jobs.disk_full import cause_of
from localai.jobs.operation_rules import Cause, Order, process_key
from worker_agent.addresses import Addresses
from worker_agent.processes import proc_table
from worker_agent.processes.confinement import Access
from worker_agent.processes.journal import Journal
from worker_agent.processes.logs import OutputFiles, open_output
from worker_agent.processes.port_range import PortRange
from worker_agent.processes.process import KILL_BOUND_S, Group
from worker_agent.processes.rules import Running
from worker_agent.processes.starter import Launch, ProcessStarter
from worker_agent.work import OperationStopped, Work

log = logs.get(__name__)

#: How often a starting process is asked whether it answers.
HEALTH_POLL_S = 0.2

Gate = Callable[[Running, Group], bool]
#: Whether the process on a port, asked with its secret, says that it is up; bounded by itself.
Probe = Callable[[int, str | None], bool]


@dataclass(frozen=True, slots=True)
class ModelProcess:
    """A started model process and what the table knows of it."""

    group: Group
    running: Running
    port: int


class Supervisor:
    """Starts and ends every process group of this agent."""

    def __init__(
        self,
        *,
        starter: ProcessStarter,
        journal: Journal,
        ports: PortRange,
        addresses: Addresses,
        log_folder: Path,
        gone: Callable[[str], None],
        forget: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._starter = starter
        self._journal = journal
        self._ports = ports
        self._addresses = addresses
        self._log_folder = log_folder
        self._gone = gone
        self._forget = forget
        self._lock = threading.Lock()
        self._groups: dict[str, Group] = {}
        self._closed = False

    def start_model(
        self, order: Order, *, folder: Path, environ: Mapping[str, str], reads: Path, gate: Gate, work: Work
    ) -> ModelProcess:
        """Start ``run.sh`` of a backend for an order. Raises OperationFailed, OperationStopped; nothing runs then.

        ``reads`` is the folder of the model. ``gate`` is asked once everything about the process is on disk and before
        it runs: False abandons it.
        """
        port, name, secret = self._ports.take(), process_key(order.model, order.slot), process_secrets.draw()
        started: list[ModelProcess] = []

        def admit(group: Group) -> bool:
            running = Running(
                process_instance=group.instance,
                job_id=order.job_id,
                op_generation=order.op_generation,
                model=order.model,
                slot=order.slot,
                address=self._addresses.advertised(port),
                pid=group.pid,
                secret=secret,
            )
            if gate(running, group):
                started.append(ModelProcess(group, running, port))
            return bool(started)

        try:
            launch = Launch(
                instance=new_id(),
                name=name,
                job_id=order.job_id,
                op_generation=order.op_generation,
                port=port,
                argv=[str(folder / "run.sh"), "--addr", f"{self._addresses.bind_host}:{port}"],
                folder=folder,
                environ={**environ, process_secrets.VARIABLE: secret},
                output=open_output(self._log_folder, name),
                access=Access(reads=(reads,)),
            )
            self._start(launch, admit=admit, nudge=work.nudge, release=lambda: self._ports.release(port))
        except OSError as error:
            self._ports.release(port)
            cause = cause_of(error, Cause.START_FAILED)
            raise OperationFailed(cause, f"the process of {name} could not be started: {error}") from None
        except BaseException:
            self._ports.release(port)
            raise
        if not started:
            raise OperationStopped
        return started[0]

    def run(self, launch: Launch, *, work: Work) -> Group:
        """Start a command of an install in a group of its own; it dies with the agent like a model process.

        Raises OSError. Once the agent is ending, the group ends without having run anything.
        """
        return self._start(launch, admit=lambda _: True, nudge=work.nudge, release=lambda: None)

    def wait_healthy(self, process: ModelProcess, *, probe: Probe, timeout_s: float, work: Work) -> None:
        """Return once the process answers Health. Raises OperationFailed; the process may still run then.

        An answer counts only while our own child lives: the port could be somebody else's.
        """
        group, began = process.group, time.monotonic()
        while time.monotonic() - began < timeout_s:
            if group.has_exited():
                raise OperationFailed(
                    Cause.START_FAILED,
                    f"the process ended with status {group.returncode} before it answered",
                    stderr_tail=group.output.tail(),
                )
            answered = probe(process.port, process.running.secret) and not group.has_exited()
            if proc_table.shared_with_strangers(process.port, group.pid):
                raise OperationFailed(
                    Cause.START_FAILED,
                    f"another program listens on port {process.port} together with the process: "
                    "it would get a part of the calls",
                )
            if answered:
                return
            work.wait_for(group.has_exited, HEALTH_POLL_S)
        raise OperationFailed(
            Cause.START_TIMEOUT,
            f"the process did not answer Health on port {process.port} within {timeout_s:g} s; "
            "LOCALAI_BACKEND_START_TIMEOUT sets the limit",
            stderr_tail=group.output.tail(),
        )

    def outputs(self) -> list[OutputFiles]:
        """The log files that are being written."""
        with self._lock:
            return [group.output for group in self._groups.values()]

    def groups(self) -> list[Group]:
        """The groups that have not ended."""
        with self._lock:
            return list(self._groups.values())

    def end_all(self, grace_s: float) -> list[Group]:
        """End every group at once and start none any more. Returns those that would not end."""
        with self._lock:
            self._closed = True
            groups = list(self._groups.values())
        for group in groups:
            group.terminate()
        deadline = time.monotonic() + grace_s
        for group in groups:
            group.gone.wait(max(0.0, deadline - time.monotonic()))
        for group in groups:
            group.kill()
        deadline = time.monotonic() + KILL_BOUND_S
        return [group for group in groups if not group.gone.wait(max(0.0, deadline - time.monotonic()))]

    def _start(
        self, launch: Launch, *, admit: Callable[[Group], bool], nudge: Callable[[], None], release: Callable[[], None]
    ) -> Group:
        held = self._starter.start(launch)
        group = held.group

        def on_gone(changed: Group) -> None:
            if not changed.gone.is_set():
                return
            release()
            with self._lock:
                self._groups.pop(launch.instance, None)
            # Reported before it is written: the disk may be full.
            self._gone(launch.instance)
            log.info("process group ended", extra=logs.fields(process=launch.name, status=changed.returncode))
            self._journal.gone(launch.instance)
            self._forget(launch.instance)

        with self._lock:
            admitted = not self._closed
            if admitted:
                self._groups[launch.instance] = group
        try:
            group.watch(on_gone, lambda _: nudge())
            admitted = admitted and admit(group)
        except BaseException:
            admitted = False
            with self._lock:
                self._groups.pop(launch.instance, None)
            raise
        finally:
            held.release(admitted)
        if admitted:
            log.info("process started", extra=logs.fields(process=launch.name, pid=group.pid, port=launch.port))
        return group
