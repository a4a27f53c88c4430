"""How a process group is started: journal, fork, journal, and only then exec.

Every fork happens on one thread that lives as long as the agent. The kernel sends a child its parent-death signal when
the *thread* that forked it ends; and a fork is followed by exec at once, with no Python in between.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from localai import logs
from worker_agent.hooks import Hooks
from worker_agent.processes import launcher, proc_table
from worker_agent.processes.confinement import Access
from worker_agent.processes.journal import Journal
from worker_agent.processes.logs import OutputFiles
from worker_agent.processes.process import Group
from worker_agent.processes.rights import Rights

log = logs.get(__name__)

#: Waits at the gate, gives up rights, then becomes the target.
_LAUNCHER = str(Path(launcher.__file__).resolve())


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One start. ``argv[0]`` is an absolute path."""

    instance: str
    #: ``<model>#<slot>``, or what else names the group in the journal, in logs and in file names.
    name: str
    job_id: str
    op_generation: int
    port: int
    argv: Sequence[str]
    folder: Path
    #: It holds secrets.
    environ: Mapping[str, str] = field(repr=False)
    output: OutputFiles
    #: Files beside those of every process.
    access: Access = Access()


#: Makes the rights of a start. Raises OSError.
MakeRights = Callable[[Launch], Rights]


class Held:
    """A launcher that waits: journaled, and not yet what it will become."""

    def __init__(self, group: Group, gate: int, hooks: Hooks) -> None:
        self.group = group
        self._gate = gate
        self._hooks = hooks

    def release(self, admitted: bool) -> None:
        """Let it become its target, or exit without having run anything."""
        try:
            if admitted:
                with suppress(BrokenPipeError):  # it died meanwhile; whoever watches the group sees that
                    os.write(self._gate, b"g")
                self._hooks.released(self.group.instance)
        finally:
            os.close(self._gate)


class ProcessStarter:
    """The thread that forks."""

    def __init__(
        self, journal: Journal, *, grace_s: float, hooks: Hooks, rights: MakeRights = lambda _: Rights()
    ) -> None:
        self._journal = journal
        self._rights = rights
        self._grace_s = grace_s
        self._hooks = hooks
        self._requests: queue.SimpleQueue[tuple[Launch, Future[Held]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="process-starter", daemon=True).start()

    def start(self, launch: Launch) -> Held:
        """A held launcher. Raises OSError when the system gives no process or no disk space."""
        future: Future[Held] = Future()
        self._requests.put((launch, future))
        return future.result()

    def _run(self) -> None:
        while True:
            launch, future = self._requests.get()
            try:
                future.set_result(self._fork(launch))
            except BaseException as error:  # noqa: BLE001  handed to the thread that asked
                future.set_exception(error)

    def _fork(self, launch: Launch) -> Held:
        self._journal.starting(
            instance=launch.instance,
            job_id=launch.job_id,
            op_generation=launch.op_generation,
            key=launch.name,
            port=launch.port,
        )
        self._hooks.journaled(launch.instance)
        gate_out, gate_in = os.pipe()
        try:
            popen = self._popen(launch, gate_out)
        except BaseException:
            os.close(gate_in)
            self._journal.gone(launch.instance)
            raise
        finally:
            os.close(gate_out)
        self._hooks.forked(launch.instance)
        try:
            self._journal.forked(instance=launch.instance, pid=popen.pid, started=proc_table.start_time(popen.pid))
        except BaseException:
            os.close(gate_in)
            popen.wait()
            raise
        self._hooks.held(launch.instance)
        group = Group(
            popen,
            instance=launch.instance,
            name=launch.name,
            grace_s=self._grace_s,
            output=launch.output,
            hooks=self._hooks,
        )
        return Held(group, gate_in, self._hooks)

    def _popen(self, launch: Launch, gate: int) -> subprocess.Popen[bytes]:
        rights = self._rights(launch)
        with open(launch.output.out, "ab") as out, open(launch.output.err, "ab") as err:
            return subprocess.Popen(
                [
                    *(sys.executable, "-SEsI", _LAUNCHER, str(gate), str(os.getpid())),
                    *(*rights.arguments(), *launch.argv),
                ],
                cwd=launch.folder,
                env={**launch.environ, **rights.environ, proc_table.INSTANCE_VARIABLE: launch.instance},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=(gate,),
                start_new_session=True,
            )
