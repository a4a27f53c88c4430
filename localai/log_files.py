"""Keeping the log file of another process within its size while that process writes it.

The writer has the file open for appending and is not asked: its file loses its beginning in place, and the writer goes
on behind the cut. No pipe lies between, so a supervisor that stands still or dies holds up no writer.
"""

from __future__ import annotations

import os
from pathlib import Path

from localai import logs

log = logs.get(__name__)


def trim(path: Path, *, limit_bytes: int, kept_bytes: int) -> None:
    """Cut a file above the limit to whole lines at its end. Lines written during the cut may be lost. Never raises."""
    try:
        if path.stat().st_size > limit_bytes:
            _cut(path, kept_bytes)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("a log cannot be cut now", extra=logs.fields(path=path, error=error))


def end_of(path: Path, count: int) -> bytes:
    """The last bytes of a file; none if there is no file."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - count))
            return file.read(count)
    except FileNotFoundError:
        return b""


def _cut(path: Path, kept_bytes: int) -> None:
    kept = end_of(path, kept_bytes)
    whole_lines = kept[kept.find(b"\n") + 1 :]
    # Emptied first: on a full disk the room for the end comes from the file itself.
    os.truncate(path, 0)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, whole_lines)
    finally:
        os.close(descriptor)
