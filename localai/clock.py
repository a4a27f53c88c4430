"""What time is it, for waits and windows of this process.

Leases are judged by the database clock only. Local windows use a clock that counts suspend where the system has one,
so that a machine that slept does not believe that its grants are fresh.
"""

from __future__ import annotations

import time

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def boottime() -> float:
    """Seconds on a clock that never steps back and counts suspend where the system can."""
    if _BOOTTIME is not None:
        return time.clock_gettime(_BOOTTIME)
    return time.monotonic()
