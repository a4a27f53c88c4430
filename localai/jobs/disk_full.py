"""The cause of a failure that the operating system reported: a full disk or quota has a cause of its own."""

from __future__ import annotations

import errno

from localai.jobs.operation_rules import Cause

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_disk_full(error: BaseException) -> bool:
    """Whether the error says that a disk or a quota has no room left."""
    return isinstance(error, OSError) and error.errno in _FULL


def cause_of(error: BaseException, otherwise: Cause) -> Cause:
    """``disk_full`` if a disk or a quota has no room left, else ``otherwise``."""
    return Cause.DISK_FULL if is_disk_full(error) else otherwise
