"""Which processes of this machine belong to a group or carry an instance, and when did one start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

PROC = Path("/proc")
#: Variable in the environment of everything that was started for one process instance.
INSTANCE_VARIABLE = "LOCALAI_PROCESS_INSTANCE"
_MARK = INSTANCE_VARIABLE.encode() + b"="
_DEAD = ("Z", "X", "x")
#: Errors that say that a process has ended or belongs to another account. Others, such as too many open files, say
#: nothing about it: they are raised, or a living process would be taken for an ended one.
_NO_PROCESS = (FileNotFoundError, ProcessLookupError, PermissionError)
#: The state of a listening socket in /proc/net/tcp.
_LISTEN = "0A"


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


def members_of(pgids: frozenset[int]) -> dict[int, list[int]]:
    """The living processes of several groups, in one pass over all processes."""
    found: dict[int, list[int]] = {}
    for pid in _pids() if PROC.is_dir() else ():
        stat = _stat(pid)
        if stat is not None and stat[0] not in _DEAD and int(stat[2]) in pgids:
            found.setdefault(int(stat[2]), []).append(pid)
    return found


def carriers(instances: frozenset[str]) -> list[int]:
    """The living processes that carry one of these instances in their environment, whatever their group is."""
    found = []
    for pid in psutil.pids() if not PROC.is_dir() else _pids():
        if pid != os.getpid() and _instance(pid) in instances and is_alive(pid):
            found.append(pid)
    return found


def zombies_of(parent: int) -> list[int]:
    """The ended children of a process that lead no group of their own and wait to be collected."""
    found = []
    for pid in _pids() if PROC.is_dir() else ():
        stat = _stat(pid)
        if stat is not None and stat[0] == "Z" and stat[1] == str(parent) and stat[2] != str(pid):
            found.append(pid)
    return found


def shared_with_strangers(port: int, pgid: int) -> bool:
    """Whether a group listens on a TCP port together with somebody else. False where the system does not say.

    A group that does not listen there itself may have a proxy that does it for it: that is no stranger.
    """
    listening = _listening(port)
    own = {inode for pid in group_members(pgid) for inode in _sockets(pid)} & listening
    return bool(own) and own != listening


def _listening(port: int) -> set[str]:
    """The inodes of the listening sockets on a port, whatever their address."""
    found = set()
    for table in ("net/tcp", "net/tcp6"):
        try:
            lines = (PROC / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found.add(fields[9])
    return found


def _sockets(pid: int) -> set[str]:
    """The inodes of the sockets a process holds."""
    found: set[str] = set()
    try:
        names = os.listdir(PROC / str(pid) / "fd")
    except OSError:
        return found
    for name in names:
        with suppress(OSError):
            target = os.readlink(PROC / str(pid) / "fd" / name)
            if target.startswith("socket:["):
                found.add(target.removeprefix("socket:[").removesuffix("]"))
    return found


def _pids() -> Iterator[int]:
    for name in os.listdir(PROC):
        if name.isdigit():
            yield int(name)


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat after the name: state, ppid, pgrp, ... (field 22, the start time, is at 19)."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode(errors="replace")
    except _NO_PROCESS:
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
    except _NO_PROCESS:
        return None
    for entry in environ.split(b"\0"):
        if entry.startswith(_MARK):
            return entry.removeprefix(_MARK).decode(errors="replace")
    return None
