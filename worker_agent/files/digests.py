"""Which file on this node is known to have which SHA-256, without reading it again.

Trusted only while size and modification time are what they were when the bytes were hashed.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path

from localai import logs

log = logs.get(__name__)


class DigestCache:
    """A small file beside the staged models."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._failing = False
        self._known: dict[str, tuple[int, int, str]] = {}
        try:
            for name, (size, mtime_ns, digest) in json.loads(path.read_text(encoding="utf-8")).items():
                self._known[name] = (int(size), int(mtime_ns), str(digest))
        except (OSError, ValueError, TypeError, AttributeError):
            self._known = {}  # a cache: without it the files are hashed again
        self._known = {name: known for name, known in self._known.items() if Path(name).exists()}

    def get(self, path: Path) -> str | None:
        """The digest of an unchanged file, else None."""
        with self._lock:
            known = self._known.get(str(path))
        try:
            found = path.stat()
        except OSError:
            return None
        return known[2] if known is not None and known[:2] == (found.st_size, found.st_mtime_ns) else None

    def entries(self) -> list[tuple[Path, int, str]]:
        """Files that lie here unchanged, with size and digest. A file that is gone or has changed is left out."""
        with self._lock:
            known = dict(self._known)
        return [(Path(name), size, digest) for name, (size, _, digest) in known.items() if self.get(Path(name))]

    def put(self, path: Path, digest: str) -> None:
        """Remember the digest of a file as it is now: on disk if there is room, else until this agent ends."""
        found = path.stat()
        with self._lock:
            self._known[str(path)] = (found.st_size, found.st_mtime_ns, digest)
            self._write()

    def _write(self) -> None:
        """Two agents may share the folder: the last to write wins, and the other hashes again."""
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_text(json.dumps(self._known), encoding="utf-8")
            os.replace(temporary, self._path)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            if not self._failing:
                log.warning("digests are not remembered on disk", extra=logs.fields(path=self._path, error=error))
            self._failing = True
        else:
            self._failing = False
