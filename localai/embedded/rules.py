"""When is a child that ended started again, and when is its start given up?"""

from __future__ import annotations

from dataclasses import dataclass

#: Pause before the first new start of a child that was ready: most ends are single accidents, and clients wait.
FIRST_DELAY_S = 0.05
#: Pause before the second one. Doubles with each further end.
SECOND_DELAY_S = 0.5
#: A child that always ends is tried twice a minute: soon enough to recover alone, rare enough not to fill a disk.
LAST_DELAY_S = 30.0
#: A child that stayed up for this long has recovered; its next end counts as the first.
STABLE_AFTER_S = 60.0
#: Pause between attempts of a child that was never ready: a person waits for it.
START_RETRY_DELAY_S = 0.25
#: A child that ends sooner after its start has not got past reading its data.
EARLY_END_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What is known when a child has ended unasked."""

    ready: bool  # it has been ready since the supervisor took it on
    restart: bool  # it is to be started again
    failures: int  # ends in a row before this one
    up_s: float  # from this start to this end
    trying_s: float  # from its very first start to now
    retry_start_s: float  # how long a child that was never ready is tried again
    losable: bool  # its data may be lost and was not set aside yet
    killed: bool  # a signal from outside ended it: that says nothing about its data


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Start it again after a pause; ``failures`` is the new count of ends in a row."""

    in_s: float
    failures: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It was never ready within the time for retries: the whole start is refused."""


@dataclass(frozen=True, slots=True)
class LeaveEnded:
    """It is not to be started again."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Its data, which may be lost, seems to be damaged: move the data away and start it empty."""


def after_end(end: End) -> StartAgain | GiveUp | LeaveEnded | SetAside:
    """What to do about a child that ended unasked."""
    # The first early end may have another reason, such as a port that a leftover still holds.
    if end.losable and not end.killed and end.failures > 0 and end.up_s < EARLY_END_S:
        return SetAside()
    if not end.ready:
        if end.trying_s + START_RETRY_DELAY_S > end.retry_start_s:
            return GiveUp()
        return StartAgain(START_RETRY_DELAY_S, end.failures + 1)
    if not end.restart:
        return LeaveEnded()
    failures = 0 if end.up_s >= STABLE_AFTER_S else end.failures
    return StartAgain(backoff_s(failures), failures + 1)


def backoff_s(failures: int) -> float:
    """Pause before the next start after so many ends in a row before this one."""
    if failures == 0:
        return FIRST_DELAY_S
    # The exponent is capped before the power is taken: the count has no bound.
    return min(LAST_DELAY_S, SECOND_DELAY_S * 2.0 ** min(failures - 1, 16))
