"""The memory and environment of a service, closed to other processes of its account."""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def close_to_others(*, unless: bool = False) -> None:
    """Let no process without CAP_SYS_PTRACE read the memory and environment of this one, and dump no core.

    Children inherit it until they exec. The files of the process in /proc belong to root then, so a service that reads
    its own environment there as a normal user is refused. ``unless`` is true if the settings ask for a debugger.
    """
    if sys.platform == "linux" and not unless:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
