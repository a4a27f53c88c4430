"""Turns for the other requests of this process, in the middle of work that is long for one."""

from __future__ import annotations

import gevent

from localai.clock import boottime

#: How long one request computes before the others have their turn: short beside the time to a first token.
SLICE_S = 0.01
#: Not zero: after a pause of zero the loop looks for what others wait for at every fiftieth time only.
_PAUSE_S = 1e-4


class Turns:
    """The turns that one piece of work gives; each costs less than a microsecond if it is not due yet."""

    def __init__(self) -> None:
        self._since = boottime()

    def give(self) -> None:
        """Let the others run, if this work has run for its slice."""
        if boottime() - self._since < SLICE_S:
            return
        gevent.sleep(_PAUSE_S)
        self._since = boottime()

    def give_now(self) -> None:
        """Let the others run before a step that cannot be interrupted."""
        gevent.sleep(_PAUSE_S)
        self._since = boottime()
