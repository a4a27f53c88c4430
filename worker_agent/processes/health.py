"""Whether the serving processes still accept connections."""

from __future__ import annotations

import socket
from collections.abc import Callable
from enum import StrEnum

from localai import logs
from localai.jobs.operation_rules import Cause, OperationError
from worker_agent.processes.rules import REFUSALS_THAT_END, Running, refusals_after

log = logs.get(__name__)

DIAL_TIMEOUT_S = 2.0


class Dialed(StrEnum):
    """What a connection attempt told."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    SILENT = "silent"  # nothing is known: busy is not dead


def dial(host: str, port: int) -> Dialed:
    """Connect and hang up."""
    try:
        with socket.create_connection((host, port), timeout=DIAL_TIMEOUT_S):
            return Dialed.ACCEPTED
    except ConnectionRefusedError:
        return Dialed.REFUSED
    except OSError:
        return Dialed.SILENT


def port_of(running: Running) -> int:
    """The port that a process listens on; frontends dial the same one."""
    return int(running.address.rpartition(":")[2])


class HealthCheck:
    """One look at all serving processes, remembering refusals between looks."""

    def __init__(
        self,
        *,
        serving: Callable[[], list[Running]],
        dial: Callable[[int], Dialed],
        end_process: Callable[[str, OperationError], bool],
    ) -> None:
        self._serving = serving
        self._dial = dial
        self._end_process = end_process
        self._refusals: dict[str, int] = {}

    def look(self) -> None:
        """Dial each process; end one that refused three times in a row while it lives."""
        counted: dict[str, int] = {}
        for running in self._serving():
            dialed = self._dial(port_of(running))
            before = self._refusals.get(running.process_instance, 0)
            if dialed is Dialed.SILENT:
                counted[running.process_instance] = before
                continue
            refusals, over = refusals_after(before, refused=dialed is Dialed.REFUSED)
            counted[running.process_instance] = refusals
            if over:
                log.warning("a process refuses connections", extra=logs.fields(process=running.process_key))
                text = f"the process refused {REFUSALS_THAT_END} connections in a row on {running.address}"
                self._end_process(running.process_instance, OperationError(cause=Cause.PROCESS_ENDED, message=text))
        self._refusals = counted
