"""What does a postmaster.pid mean that an earlier start left behind?

Asked only by the holder of the state folder's lock, so no other supervisor of ours runs a server on that folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

#: PostgreSQL's executable, as the system shows it.
POSTGRES = "postgres"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that now has the pid of the file."""

    name: str
    zombie: bool
    cwd: Path | None  # PostgreSQL's is its data folder; None where it may not be read


class PidFile(Enum):
    """What to do before PostgreSQL is started."""

    KEEP = "keep"  # PostgreSQL decides
    REMOVE = "remove"  # the pid belongs to somebody else now, and PostgreSQL would refuse to start
    STOP_LEFTOVER = "stop"  # a server whose supervisor is gone still runs on this folder


def judge(holder: Holder | None, data: Path) -> PidFile:
    """What to do with a pid file of ``data`` whose pid ``holder`` has; None = nobody has it."""
    if holder is None or holder.zombie or holder.name != POSTGRES:
        return PidFile.REMOVE
    if holder.cwd is None:
        # Another account's process. PostgreSQL itself ignores a pid of another account.
        return PidFile.KEEP
    return PidFile.STOP_LEFTOVER if holder.cwd == data else PidFile.REMOVE


def pid_of(text: str) -> int | None:
    """The pid in a postmaster.pid, or None when the file holds none (a crash while it was written)."""
    first = text.split("\n", 1)[0].strip()
    return int(first) if first.isdigit() and int(first) > 0 else None
