"""What the SHA-256 of a file is, without reading it twice.

A digest belongs to a path, a size and a time of change; when one of them differs, it is computed anew. Digests are
remembered in the process and in one file, which the processes of a frontend share.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localai import logs
from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause

log = logs.get(__name__)

#: Large enough that hashing runs at the speed of the disk, small enough to notice a cancel.
CHUNK_BYTES = 4 * 1024 * 1024
Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


def ignore_progress(done: int, total: int) -> None:
    """For callers who show none."""


def never() -> bool:
    """For callers who cannot be cancelled."""
    return False


@dataclass(frozen=True, slots=True)
class _Known:
    size: int
    changed_ns: int
    sha256: str


class Digests:
    """Digests of the files of one machine."""

    def __init__(self, *cache_files: Path) -> None:
        """Each new digest is written to the first of ``cache_files`` that takes it; all of them are read.

        A file is written whole, and a damaged one is an empty one.
        """
        self._cache_files = cache_files
        #: The files that have refused a write; a later success is no matter of this process.
        self._refused: set[Path] = set()
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def known(self, path: Path) -> str | None:
        """The digest when it needs no reading of the file, else None. Raises OSError when there is no such file."""
        status = path.stat()
        with self._lock:
            found = self._fresh(path, status)
            if found is None and self._cache_files:
                # Another process may have computed it since.
                self._known = self._read() | self._known
                found = self._fresh(path, status)
            return found

    def digest(self, path: Path, progress: Progress = ignore_progress, cancelled: Cancelled = never) -> str:
        """The digest; ``progress(done, total)`` in bytes while it is computed.

        Raises OSError, or OperationFailed (cancelled).
        """
        found = self.known(path)
        if found is not None:
            return found
        before = path.stat()
        found = _hash(path, before.st_size, progress, cancelled)
        self.remember(path, found, before)
        return found

    def remember(self, path: Path, sha256: str, status: os.stat_result | None = None) -> None:
        """Keep a digest that was computed elsewhere, such as while the file was written."""
        status = status or path.stat()
        with self._lock:
            self._known[_key(path)] = _Known(status.st_size, status.st_mtime_ns, sha256)
            self._known = self._read() | self._known
            self._write()

    def _read(self) -> dict[str, _Known]:
        found: dict[str, _Known] = {}
        for cache_file in self._cache_files:
            found |= _read(cache_file)
        return found

    def _write(self) -> None:
        """Best effort: a digest that is not kept is computed again."""
        for cache_file in self._cache_files:
            if cache_file in self._refused:
                continue
            try:
                _write(cache_file, self._known)
            except OSError as error:
                self._refused.add(cache_file)
                log.warning("digests of model files are not kept in %s: %s", cache_file, error.strerror)
            else:
                return

    def _fresh(self, path: Path, status: os.stat_result) -> str | None:
        entry = self._known.get(_key(path))
        if entry and (entry.size, entry.changed_ns) == (status.st_size, status.st_mtime_ns):
            return entry.sha256
        return None


def _key(path: Path) -> str:
    return str(path.absolute())


def _hash(path: Path, size: int, progress: Progress, cancelled: Cancelled) -> str:
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            if cancelled():
                raise OperationFailed(Cause.CANCELLED, f"cancelled while reading {path.name}")
            digest.update(chunk)
            done += len(chunk)
            progress(done, size)
    return digest.hexdigest()


def _read(cache_file: Path) -> dict[str, _Known]:
    try:
        entries = json.loads(cache_file.read_text(encoding="utf-8"))
        return {path: _Known(*entry) for path, entry in entries.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write(cache_file: Path, known: dict[str, _Known]) -> None:
    text = json.dumps({path: [entry.size, entry.changed_ns, entry.sha256] for path, entry in known.items()})
    number, name = tempfile.mkstemp(prefix=f".{cache_file.name}.", dir=cache_file.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, cache_file)
    except BaseException:
        os.unlink(name)
        raise
