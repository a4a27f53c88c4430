"""Which process groups may outlive this agent: an append-only file that is on disk before each start.

One JSON object a line. ``start`` is written before the fork, ``pid`` before the launcher may run anything, ``gone``
once the group is empty. A torn last line is what a crash leaves, and means that its step did not happen.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from worker_agent.processes import proc_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One start. ``pid`` leads the group of the same number; it is None when the fork was never journaled."""

    instance: str
    job_id: str
    op_generation: int
    key: str
    port: int
    boot: str
    pid: int | None = None
    started: str | None = None


class Journal:
    """The open journal of this incarnation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._boot = proc_table.boot_id()
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def starting(self, *, instance: str, job_id: str, op_generation: int, key: str, port: int) -> None:
        """On disk before the fork."""
        entry = Entry(
            instance=instance, job_id=job_id, op_generation=op_generation, key=key, port=port, boot=self._boot
        )
        self._append({"event": "start", **asdict(entry)}, durable=True)

    def forked(self, *, instance: str, pid: int, started: str | None) -> None:
        """On disk before the launcher may exec."""
        self._append({"event": "pid", "instance": instance, "pid": pid, "started": started}, durable=True)

    def gone(self, instance: str) -> None:
        """The group is empty. Losing this line costs the next incarnation one look."""
        self._append({"event": "gone", "instance": instance}, durable=False)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _append(self, line: dict[str, Any], *, durable: bool) -> None:
        with self._lock:
            if self._fd < 0:
                return
            os.write(self._fd, json.dumps(line).encode() + b"\n")
            if durable:
                os.fsync(self._fd)


def read(path: Path) -> list[Entry]:
    """The starts whose group is not known to be empty, oldest first."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    entries: dict[str, Entry] = {}
    for line in lines:
        try:
            body = json.loads(line)
            event, instance = body.pop("event"), body["instance"]
            if event == "start":
                entries[instance] = Entry(**body)
            elif event == "pid" and instance in entries:
                entries[instance] = replace(entries[instance], pid=body["pid"], started=body["started"])
            elif event == "gone":
                entries.pop(instance, None)
        except (ValueError, KeyError, TypeError):
            continue
    return list(entries.values())


def compact(path: Path, kept: Sequence[Entry]) -> None:
    """Replace the journal by the entries that still matter, all or nothing."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        for entry in kept:
            file.write(json.dumps({"event": "start", **asdict(entry)}).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
