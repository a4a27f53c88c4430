"""How much processor time the processes of one instance have used, by the system's own count."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

from worker_agent.processes import proc_table
from worker_agent.processes.stall_rules import Activity

_RUNNABLE = "R"
#: Fields of /proc/<pid>/task/<tid>/stat after the name.
_STATE, _UTIME, _STIME = 0, 11, 12


def of_instance(pgid: int, instance: str) -> Activity | None:
    """The activity of a group and of what left the group; None if the system does not say."""
    try:
        pids = {*proc_table.group_members(pgid), *proc_table.carriers(frozenset({instance}))}
    except OSError:  # such as too many open files
        return None
    found = [one for one in map(_of_process, pids) if one is not None]
    if not found:
        return None
    return Activity(used=sum(one.used for one in found), wants_to_run=any(one.wants_to_run for one in found))


def _of_process(pid: int) -> Activity | None:
    if not proc_table.PROC.is_dir():
        return _of_psutil(pid)
    threads = proc_table.PROC / str(pid) / "task"
    try:
        folders = [threads / name for name in os.listdir(threads)]
    except OSError:
        return None
    return _sum(folders)


def _sum(threads: Iterable[Path]) -> Activity | None:
    used, wants_to_run, read = 0, False, False
    for thread in threads:
        with suppress(OSError, ValueError, IndexError):  # a thread that ended meanwhile
            state, ticks = _stat(thread)
            used += ticks + _nanoseconds(thread)
            wants_to_run = wants_to_run or state == _RUNNABLE
            read = True
    return Activity(used=used, wants_to_run=wants_to_run) if read else None


def _stat(thread: Path) -> tuple[str, int]:
    text = (thread / "stat").read_bytes().decode(errors="replace")
    fields = text[text.rindex(")") + 2 :].split()
    return fields[_STATE], int(fields[_UTIME]) + int(fields[_STIME])


def _nanoseconds(thread: Path) -> int:
    """Finer than the ticks of `stat`, which a thread that wakes for a moment each minute hardly moves; 0 if unknown."""
    try:
        return int((thread / "schedstat").read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _of_psutil(pid: int) -> Activity | None:
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return Activity(
            used=int((times.user + times.system) * 1e6), wants_to_run=process.status() == psutil.STATUS_RUNNING
        )
    except psutil.Error:
        return None
