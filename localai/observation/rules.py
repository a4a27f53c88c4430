"""Gaps between two passes of the sweep, and steps of the database's clock, as decided from one shared row.

Silence proves something only while it could have been broken. If no sweep ran, no report could be written, or the clock
of the database stepped, then a stored time says nothing about the process that wrote it. Every pass therefore notes the
time in one row that all sweeps share; the distance to the note before is the gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

#: A note this far ahead of the clock is a step back of the clock. Smaller steps change no window.
STEP_BACK_S = 1.0
#: Notes within one gap: a pass that finds a younger note writes nothing.
NOTES_PER_GAP = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """The shared row. All times are by the clock of the database; ``now`` is its reading."""

    noted_at: datetime
    #: Since when the notes follow each other without a gap.
    resumed_at: datetime
    #: Whether a web process holds a lease: without one no agent can beat or report.
    heard: bool
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a pass learns from the row."""

    #: Seconds without a gap, 0 if the gap ends with this pass.
    watched_s: float
    #: Whether the row is to be written.
    note: bool = False
    #: Seconds that nothing was observed for; they are no silence of an agent or owner.
    unseen_s: float = 0.0
    #: Whether the clock stepped back: stored times may lie ahead of it.
    stepped_back: bool = False

    @property
    def resumes(self) -> bool:
        """Whether the observation begins anew with this pass."""
        return self.stepped_back or self.unseen_s > 0


def look(row: Note, gap_s: float) -> Finding:
    """Decide what the distance to the last note means. A step forward of the clock is a gap like any other."""
    age_s = (row.now - row.noted_at).total_seconds()
    if age_s < -STEP_BACK_S:
        return Finding(watched_s=0.0, note=True, stepped_back=True)
    due = age_s >= gap_s / NOTES_PER_GAP
    if age_s > gap_s or (due and not row.heard):
        return Finding(watched_s=0.0, note=True, unseen_s=age_s)
    watched_s = max(0.0, (row.now - row.resumed_at).total_seconds())
    return Finding(watched_s=watched_s if row.heard else 0.0, note=due)
