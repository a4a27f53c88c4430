"""Where the output of a process goes, and what its last lines are.

Output goes straight into files and never through this agent: a busy or frozen agent blocks no model process, and the
last words of a process outlive the agent.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from localai import log_files
from localai.lines import lines_of

#: Lines of standard error that are kept in reach.
RING_LINES = 200
#: Lines of it that an error carries.
TAIL_LINES = 20
#: A log file above this size loses its beginning. It is looked at every few seconds, so it is documented as 32 MiB.
LIMIT_BYTES = 24 * 1024 * 1024
#: How much of the end is kept then.
KEPT_BYTES = 1024 * 1024
#: Bytes read for the last lines; a line longer than that is cut.
_READ_BYTES = 64 * 1024

#: A file's name is at most 255 bytes, and endings follow.
_LONGEST_STEM = 200
#: Stands where a name was cut; quoting never makes it.
_CUT = "%~"


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """The two files of one process."""

    out: Path
    err: Path

    def last_lines(self, count: int = RING_LINES) -> list[str]:
        """The last lines of standard error."""
        lines = lines_of(log_files.end_of(self.err, _READ_BYTES).decode(errors="replace"))
        return lines[-min(count, RING_LINES) :]

    def tail(self) -> str:
        """What an error says about the process."""
        return "\n".join(self.last_lines(TAIL_LINES))

    def trim(self) -> None:
        """Cut files that have grown too large. Never raises."""
        for path in {self.out, self.err}:
            log_files.trim(path, limit_bytes=LIMIT_BYTES, kept_bytes=KEPT_BYTES)


def open_output(folder: Path, name: str, *, merged: bool = False) -> OutputFiles:
    """Fresh files for a process of that name; those of the one before stay beside them with ``.1``.

    ``merged`` sends both streams into one file, for commands whose last words may be on either.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stem = stem_of(name)
    err = folder / f"{stem}.err.log"
    files = OutputFiles(err if merged else folder / f"{stem}.out.log", err)
    for path in {files.out, files.err}:
        if path.exists():
            os.replace(path, path.with_name(path.name + ".1"))
        path.touch(mode=0o600)
    return files


def stem_of(name: str) -> str:
    """The file name of a process, without its ending: two names never share a file."""
    stem = quote(name, safe="#")
    if len(stem) <= _LONGEST_STEM:
        return stem
    return stem[: _LONGEST_STEM - 40] + _CUT + hashlib.sha256(name.encode()).hexdigest()[:16]


def process_of(stem: str) -> tuple[str, int] | None:
    """Model and slot of a file name; None for the output of anything else, and for a name that was cut."""
    model, mark, slot = unquote(stem).rpartition("#")
    return (model, int(slot)) if mark and model and slot.isdecimal() and _CUT not in stem else None
