"""What an earlier incarnation left running, and whether all of it is dead.

Two nets: the journaled groups, told from strangers by the start time of their leader; and every process that carries a
journaled instance in its environment, whatever group it is in.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from localai import logs
from worker_agent.processes import journal, proc_table
from worker_agent.processes.journal import Entry

log = logs.get(__name__)

_LOOK_S = 0.05


def kill_leftovers(path: Path, *, bound_s: float, stop: threading.Event) -> tuple[list[Entry], list[int]]:
    """Kill everything that earlier incarnations journaled and did not end.

    Returns the entries that were found in the journal, and the processes that still live when ``bound_s`` is over or
    ``stop`` is set. The journal is compacted if the disk allows it: only entries of survivors stay.
    """
    entries = journal.read(path)
    survivors = _survivors(entries)
    if survivors:
        log.warning("ending what an earlier agent left running", extra=logs.fields(pids=survivors))
    rounds = int(bound_s / _LOOK_S)
    while survivors and rounds > 0:
        for pid in survivors:
            _kill(pid)
        if stop.wait(_LOOK_S):
            break
        survivors = _survivors(entries)
        rounds -= 1
    try:
        journal.compact(path, entries if survivors else [])
    except OSError as error:  # the old entries cost the next incarnation one look
        log.warning("the journal cannot be compacted now", extra=logs.fields(error=error))
    return entries, survivors


def _survivors(entries: Sequence[Entry]) -> list[int]:
    boot = proc_table.boot_id()
    here = [entry for entry in entries if entry.boot == boot]
    found = set(proc_table.carriers(frozenset(entry.instance for entry in here))) if here else set()
    for entry in here:
        if entry.pid is None or entry.started is None:
            continue
        if proc_table.start_time(entry.pid) == entry.started:
            found.update(proc_table.group_members(entry.pid))
    return sorted(found)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
