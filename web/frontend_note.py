"""How the gunicorn master learns which row in `frontends` a web process had, also of one that was killed.

A worker cannot say it when it dies, so it writes the id of each registration into memory that both share from the fork.
"""

from __future__ import annotations

import mmap

from localai.ids import FrontendId

#: Longer than any id.
_SIZE = 64


class FrontendNote:
    """One id, shared by a parent and the child it forks after making the note."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SIZE)

    def write(self, frontend_id: FrontendId) -> None:
        """Remember the newest registration of the child."""
        self._memory[:] = frontend_id.encode().ljust(_SIZE, b"\0")[:_SIZE]

    def read(self) -> FrontendId | None:
        """The newest registration, None when the child never got that far."""
        text = self._memory[:].rstrip(b"\0").decode()
        return FrontendId(text) if text else None

    def close(self) -> None:
        self._memory.close()


_OF_THIS_PROCESS: list[FrontendNote] = []


def hand_over(note: FrontendNote) -> None:
    """Called in the master just before a fork: the child finds this note as its own."""
    _OF_THIS_PROCESS[:] = [note]


def write_own(frontend_id: FrontendId) -> None:
    """Write the note this process was forked with, if there is one."""
    for note in _OF_THIS_PROCESS:
        note.write(frontend_id)
