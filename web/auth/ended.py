"""Sessions that a person ended, as this web process knows them: read from the rows, and believed for a few seconds."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from localai import logs
from localai.clock import boottime
from localai.errors import StorageUnavailable

log = logs.get(__name__)

#: How long a session is believed without asking the rows again: a session that another frontend ended lives as long.
BELIEVED_S = 5.0
#: Sessions that are remembered. Only values with the signature of a key are asked for.
_REMEMBERED = 10_000


class Rows(Protocol):
    """The rows of ended sessions."""

    def end(self, digest: str, for_s: float) -> None: ...
    def is_ended(self, digest: str) -> bool: ...


class EndedSessions:
    """Asks the rows, at most once in a while for each session. Safe for threads."""

    def __init__(self, rows: Rows, lifetime_s: float, *, clock: Callable[[], float] = boottime) -> None:
        self._rows, self._lifetime_s, self._clock = rows, lifetime_s, clock
        self._lock = threading.Lock()
        #: Until when the answer of the rows is believed. An end is final.
        self._known: OrderedDict[str, tuple[float, bool]] = OrderedDict()

    def end(self, value: str) -> None:
        """End a session on every frontend. Raises StorageUnavailable; this process ends it all the same."""
        digest = _digest(value)
        self._remember(digest, ended=True)
        self._rows.end(digest, self._lifetime_s)

    def is_ended(self, value: str) -> bool:
        """Whether a person ended the session. While the database is away, this process knows what it knew."""
        digest = _digest(value)
        with self._lock:
            until, ended = self._known.get(digest, (0.0, False))
        if ended or until > self._clock():
            return ended
        try:
            ended = self._rows.is_ended(digest)
        except StorageUnavailable as error:
            log.warning("a session is accepted without its row: %s", error.message)
        self._remember(digest, ended=ended)
        return ended

    def _remember(self, digest: str, *, ended: bool) -> None:
        with self._lock:
            ended = ended or self._known.get(digest, (0.0, False))[1]
            self._known[digest] = (self._clock() + BELIEVED_S, ended)
            self._known.move_to_end(digest)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def _digest(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()
