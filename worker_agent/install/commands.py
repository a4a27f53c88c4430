"""How a command of an install runs: in a group of its own, with a deadline, and with its last lines in the error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from localai.errors import OperationFailed
from localai.ids import new_id
from localai.jobs.operation_rules import Cause, Order
from worker_agent.processes.confinement import Access
from worker_agent.processes.logs import open_output
from worker_agent.processes.process import Group
from worker_agent.processes.starter import Launch
from worker_agent.work import Work

#: How often a running command's last line is looked at.
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Errand:
    """What an install is for, until when it may last (monotonic clock), and how it is heard and stopped."""

    order: Order
    deadline: float
    said: Callable[[str], None]
    work: Work

    @property
    def left_s(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


class RunsGroups(Protocol):
    """Who starts process groups."""

    def run(self, launch: Launch, *, work: Work) -> Group: ...


@dataclass(frozen=True, slots=True)
class Commands:
    """Runs the commands of installs."""

    groups: RunsGroups
    log_folder: Path
    environ: Mapping[str, str]

    def run(
        self,
        argv: Sequence[str],
        *,
        folder: Path,
        access: Access,
        errand: Errand,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command to its end, in ``environ`` in place of the usual environment if it is given.

        Whatever happens, its whole group has ended when this returns or raises.

        Raises OperationFailed (backend_install_failed) with the command's last lines, OperationStopped.
        """
        order, work = errand.order, errand.work
        name = f"install-{order.backend}"
        launch = Launch(
            instance=new_id(),
            name=name,
            job_id=order.job_id,
            op_generation=order.op_generation,
            port=0,
            argv=argv,
            folder=folder,
            environ=self.environ if environ is None else environ,
            output=open_output(self.log_folder, name, merged=True),
            access=access,
        )
        group = self.groups.run(launch, work=work)
        try:
            while not work.wait_for(group.has_exited, min(_LOOK_S, errand.left_s)):
                for line in group.output.last_lines(1):
                    errand.said(line)
                if not errand.left_s:
                    raise OperationFailed(
                        Cause.BACKEND_INSTALL_FAILED,
                        f"installing backend {order.backend} took longer than {order.install_timeout_s:g} s "
                        "(LOCALAI_NATS_BACKEND_INSTALL_TIMEOUT)",
                        stderr_tail=group.output.tail(),
                    )
        finally:
            if not group.has_exited():
                group.end()
            group.gone.wait()
        if group.returncode != 0:
            raise OperationFailed(
                Cause.BACKEND_INSTALL_FAILED,
                f"installing backend {order.backend} failed with status {group.returncode}",
                stderr_tail=group.output.tail(),
            )
