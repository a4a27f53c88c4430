"""How does a file that only its owner may read come into being, whole or not at all?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace_private(path: Path, text: str) -> None:
    """Write a 0600 file so that a reader sees the old or the new text, also after a power cut. Raises OSError."""
    temporary = _temporary(path, text)
    try:
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create_private(path: Path, text: str) -> bool:
    """Write a 0600 file unless it exists; whether this call made it. Two callers at once agree on one text."""
    temporary = _temporary(path, text)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _temporary(path: Path, text: str) -> Path:
    # mkstemp makes the file 0600 from the start: there is no moment in which others may read it.
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)
