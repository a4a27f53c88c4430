"""Which processes of this machine belong to a group or carry an instance, and when did one start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

PROC = Path("/proc")
#: Variable in the environment of everything that was started for one process instance.
INSTANCE_VARIABLE = "LOCALAI_PROCESS_INSTANCE"
_MARK = INSTANCE_VARIABLE.encode() + b"="
_DEAD = ("Z", "X", "x")


def boot_id() -> str:
    """What differs between two boots of the machine; empty where the system does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_time(pid: int) -> str | None:
    """When a process started, in the system's own words; None when there is none. A pid used again differs in it."""
    if PROC.is_dir():
        stat = _stat(pid)
        return None if stat is None else stat[19]
    try:
        return repr(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie has ended: only its parent has not looked yet."""
    if PROC.is_dir():
        stat = _stat(pid)
        return stat is not None and stat[0] not in _DEAD
    return psutil.pid_exists(pid)


def group_members(pgid: int) -> list[int]:
    """The living processes of a group."""
    if PROC.is_dir():
        found = []
        for pid in _pids():
            stat = _stat(pid)
            if stat is not None and stat[2] == str(pgid) and stat[0] not in _DEAD:
                found.append(pid)
        return found
    return [pid for pid in psutil.pids() if _pgid(pid) == pgid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


def carriers(instances: frozenset[str]) -> list[int]:
    """The living processes that carry one of these instances in their environment, whatever their group is."""
    found = []
    for pid in psutil.pids() if not PROC.is_dir() else _pids():
        if pid != os.getpid() and _instance(pid) in instances and is_alive(pid):
            found.append(pid)
    return found


def _pids() -> Iterator[int]:
    for name in os.listdir(PROC):
        if name.isdigit():
            yield int(name)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat after the name: state, ppid, pgrp, ... (field 22, the start time, is at 19)."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def _pgid(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _instance(pid: int) -> str | None:
    if not PROC.is_dir():
        try:
            return psutil.Process(pid).environ().get(INSTANCE_VARIABLE)
        except psutil.Error:
            return None
    try:
        environ = (PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    for entry in environ.split(b"\0"):
        if entry.startswith(_MARK):
            return entry.removeprefix(_MARK).decode(errors="replace")
    return None
