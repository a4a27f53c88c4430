"""Which process groups may outlive this agent: an append-only file that is on disk before each start.

One JSON object a line. ``start`` is written before the fork, ``pid`` before the launcher may run anything, ``gone``
once the group is empty. A torn line is left by a crash or a full disk, and means that its step did not happen. It costs
no other line: a writer begins on a fresh line, and a reader finds the record behind a torn one.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from localai import logs
from worker_agent.processes import proc_table

log = logs.get(__name__)

#: How every record begins. Inside a JSON text its quotes would be escaped, so it begins a record wherever it is found.
_RECORD_START = re.compile(rb'(?=\{"event": ?")')


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
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        #: Groups that have ended and whose ``gone`` is not on disk yet.
        self._ended: list[str] = []
        self._failing = False

    def starting(self, *, instance: str, job_id: str, op_generation: int, key: str, port: int) -> None:
        """On disk before the fork. Raises OSError; nothing of the line is on disk then."""
        entry = Entry(
            instance=instance, job_id=job_id, op_generation=op_generation, key=key, port=port, boot=self._boot
        )
        self._append({"event": "start", **asdict(entry)}, durable=True)

    def forked(self, *, instance: str, pid: int, started: str | None) -> None:
        """On disk before the launcher may exec. Raises OSError; nothing of the line is on disk then."""
        self._append({"event": "pid", "instance": instance, "pid": pid, "started": started}, durable=True)

    def gone(self, instance: str) -> None:
        """The group is empty. Never raises: a line that cannot be written now is written by `catch_up`.

        Losing it costs the next incarnation one look.
        """
        with self._lock:
            self._ended.append(instance)
        self.catch_up()

    def catch_up(self) -> None:
        """Write the ends that could not be written when they happened. Never raises."""
        try:
            self._append()
        except OSError as error:
            if not self._failing:
                log.warning("the journal cannot be written now, it is tried again", extra=logs.fields(error=error))
            self._failing = True
        else:
            self._failing = False

    def close(self) -> None:
        self.catch_up()
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _append(self, *records: dict[str, Any], durable: bool = False) -> None:
        """Write the pending ends and these records, all or nothing."""
        with self._lock:
            lines = [{"event": "gone", "instance": instance} for instance in self._ended] + list(records)
            if self._fd < 0 or not lines:
                return
            _append_whole(self._fd, b"".join(json.dumps(line).encode() + b"\n" for line in lines), durable=durable)
            self._ended.clear()


def _append_whole(descriptor: int, data: bytes, *, durable: bool) -> None:
    """Append on a fresh line. What was written of a write that failed is removed. Raises OSError."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        data = b"\n" + data
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        if durable:
            os.fsync(descriptor)
    except OSError:
        with suppress(OSError):  # if this fails too, the next record begins on a fresh line
            os.ftruncate(descriptor, end)
        raise


def read(path: Path) -> list[Entry]:
    """The starts whose group is not known to be empty, oldest first."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    entries: dict[str, Entry] = {}
    for record in _records(data):
        try:
            body = json.loads(record)
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


def _records(data: bytes) -> Iterator[bytes]:
    for line in data.split(b"\n"):
        yield from _RECORD_START.split(line)


def compact(path: Path, kept: Sequence[Entry]) -> None:
    """Replace the journal by the entries that still matter, all or nothing. Raises OSError."""
    if not kept:
        # Needs no room, so it also works on a full disk.
        with open(path, "ab") as file:
            file.truncate(0)
            os.fsync(file.fileno())
        return
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb", opener=_for_its_owner) as file:
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


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
