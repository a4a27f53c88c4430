"""Which replica takes the next request, and may this process still route at all?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from localai.window_rules import CLOCK_RATE_ERROR


@dataclass(frozen=True, slots=True)
class Use:
    """How a replica is used by this process. `last_used` counts picks; it is no time."""

    in_flight: int
    last_used: int


def choose(uses: Sequence[Use]) -> int:
    """The place of the replica to take: fewest requests in flight, then the one not used for longest."""
    return min(range(len(uses)), key=lambda place: (uses[place].in_flight, uses[place].last_used))


class Standing(Enum):
    """What this process's row in `frontends` allows it to do."""

    STARTING = "starting"  # no row, or no rows read since: nothing is picked
    FRESH = "fresh"  # the lease holds: whoever changes routes waits for this process
    STALE = "stale"  # the lease may have ended, because the database refused or did not answer
    LAPSED = "lapsed"  # the lease may have ended, because this process did not run or did not try


@dataclass(frozen=True, slots=True)
class Lease:
    """The row of this process in `frontends`, by its own clock that counts suspend. Times are in seconds.

    `until` runs from before the last successful renewal was sent, shortened by what two clocks may drift apart, so it
    ends before the row does.
    """

    until: float
    refused_at: float | None = None

    @classmethod
    def granted(cls, sent_at: float, ttl_s: float) -> Lease:
        """The lease after a registration or renewal that was sent at `sent_at`."""
        return cls(until=sent_at + ttl_s * (1 - CLOCK_RATE_ERROR))

    def refused(self, at: float) -> Lease:
        """The lease after a try that the database refused or did not answer."""
        return Lease(until=self.until, refused_at=at)

    def standing(self, now: float, ttl_s: float) -> Standing:
        """Whether the lease holds, and if not, whether this process can tell why."""
        if now < self.until:
            return Standing.FRESH
        # A process that was frozen comes back with an old refusal, or with none.
        if self.refused_at is not None and now - self.refused_at < ttl_s:
            return Standing.STALE
        return Standing.LAPSED
