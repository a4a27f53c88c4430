"""Whether the system accepts connections to a model process."""

from __future__ import annotations

import socket
from enum import StrEnum

from worker_agent.processes.rules import Running

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
