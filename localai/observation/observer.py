"""What one control process knows of gaps: the shared row at each pass, and its own clock in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from localai.clock import boottime


@dataclass(frozen=True, slots=True)
class Observation:
    """One pass: seconds of observation without a gap, and the clock of the database."""

    watched_s: float
    now: datetime


class Observes(Protocol):
    """The shared row."""

    def observe(self) -> Observation:
        """Note the time and mend what a gap spoiled. Raises StorageUnavailable."""


class Observer:
    """The observation of one control process. Safe for threads."""

    def __init__(self, rows: Observes, gap_s: float, clock: Callable[[], float] = boottime) -> None:
        self._rows, self._gap_s, self._clock = rows, gap_s, clock
        self._lock = threading.Lock()
        self._last: tuple[float, datetime] | None = None

    def look(self) -> float:
        """One pass; the seconds of observation without a gap. Raises StorageUnavailable."""
        seen = self._rows.observe()
        with self._lock:
            self._last = (self._clock(), seen.now)
        return seen.watched_s

    def trusts(self, moment: datetime) -> bool:
        """Whether a reading of the database's clock may be compared with stored times.

        False if no pass came lately, or the clock stepped since: the next pass mends the stored times first.
        """
        with self._lock:
            last = self._last
        if last is None:
            return False
        seen_at, now = last
        passed_s = self._clock() - seen_at
        return passed_s <= self._gap_s and abs(moment - now - timedelta(seconds=passed_s)) <= timedelta(
            seconds=self._gap_s
        )
