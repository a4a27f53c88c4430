"""Who buries processes whose parent ended before them, where this agent is the first process of its container."""

from __future__ import annotations

import os
from contextlib import suppress

from worker_agent.processes import proc_table


def reap_orphans() -> None:
    """Collect zombies that were given to this process; its own children have who waits for them."""
    if os.getpid() != 1:
        return
    for pid in proc_table.zombies_of(os.getpid()):
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
