"""A real file system of a few megabytes that a test can fill to its last byte."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_FILLER = "filler"


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Path]:
    """Mount a tmpfs of that size over ``folder``. Skips the test if this account may not mount."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False) if os.geteuid() == 0 else None
    if done is None or done.returncode != 0:
        pytest.skip(f"a small disk needs root and the right to mount: {done.stderr.strip() if done else 'not root'}")
    try:
        yield folder
    finally:
        # Lazily: a process that is about to end may still have a file open.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, *appended: Path) -> None:
    """Take every free block, then the rest of the last block of each file in ``appended`` (with line ends)."""
    _append(disk / _FILLER, b"\0" * 65536)
    _append(disk / _FILLER, b"\0")
    for path in appended:
        _append(path, b"\n")


def make_room(disk: Path) -> None:
    """Give back what `fill` took."""
    (disk / _FILLER).unlink()


def _append(path: Path, piece: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        while True:
            try:
                file.write(piece)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                return
