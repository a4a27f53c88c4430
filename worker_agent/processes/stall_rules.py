"""Whether a model process that answers nothing is busy or stands still.

A busy process cannot always answer a call, but its gRPC server greets a new connection: that takes a thread of the
process and none of the model's. The system alone accepts the connection of a stopped process, and greets nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

#: Looks that a judgement needs at least, however long the time between two of them was.
LEAST_LOOKS = 3


class Heard(StrEnum):
    """What a new connection to a model process brought."""

    ANSWERED = "answered"  # a call was answered, with whatever status
    GREETED = "greeted"  # its server greeted the connection and answered no call in time
    REFUSED = "refused"  # the system refused the connection: nothing listens on the port
    NOTHING = "nothing"  # the system accepted the connection at most


@dataclass(frozen=True, slots=True)
class Activity:
    """What the system counts for the processes of one instance."""

    #: Processor time of all threads, in any unit. It differs between two looks if one of them ran.
    used: int
    #: A thread is on a processor or waits for one.
    wants_to_run: bool


@dataclass(frozen=True, slots=True)
class Silence:
    """An unbroken series of looks at which a process answered nothing and had used no processor time."""

    since: float
    last_at: float
    looks: int
    used: int

    @property
    def lasted_s(self) -> float:
        return self.last_at - self.since


def silence_after(
    before: Silence | None, heard: Heard, activity: Activity | None, *, now: float, longest_gap_s: float
) -> Silence | None:
    """The series after one more look; None if this look shows that the process works, or shows nothing.

    A series begins anew if the process ran between two looks, or if the looks are too far apart: then this machine or
    this agent stood still itself, and its own pause proves nothing about a process.
    """
    if heard is not Heard.NOTHING or activity is None or activity.wants_to_run:
        return None
    if before is None or activity.used != before.used or now - before.last_at > longest_gap_s:
        return Silence(since=now, last_at=now, looks=1, used=activity.used)
    return replace(before, last_at=now, looks=before.looks + 1)


def stands_still(silence: Silence, *, window_s: float) -> bool:
    """Whether a process has been silent for so long that it is ended."""
    return silence.looks >= LEAST_LOOKS and silence.lasted_s >= window_s
