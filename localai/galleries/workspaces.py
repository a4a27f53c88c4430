"""Where a file is put together before it is renamed into place, and how leftovers of killed processes go away."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".fetch-"
_LOCK = "lock"
#: A folder this young may belong to a process that has not locked it yet.
_YOUNG_S = 60.0


@contextmanager
def workspace(parent: Path) -> Iterator[Path]:
    """An empty folder in ``parent``, on the same file system, gone afterwards. Raises OSError."""
    _sweep(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    number = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        inner = folder / "files"
        inner.mkdir()
        yield inner
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(number)


def _sweep(parent: Path) -> None:
    """Remove the folders of processes that ended without doing so."""
    for folder in parent.glob(_PREFIX + "*"):
        if _abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        if time.time() - folder.stat().st_mtime < _YOUNG_S:
            return False
        number = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return False  # another process is removing it
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(number)
