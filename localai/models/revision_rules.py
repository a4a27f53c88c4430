"""When the config of one frontend becomes the revision in force for all of them.

Frontends may have different folders. A frontend that only holds an older file must not replace what others serve, also
if it starts again and again. Three facts prove that a file is newer than the revision in force: the frontend saw the
file change away from that revision; the file was written after that revision came into force; or no replica serves that
revision, so that a load replaces nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a frontend knows of the file behind a revision."""

    #: The revision the file had before, as this frontend saw it.
    was: str | None = None
    #: When the file was written, by the clock of its disk.
    changed_at: datetime | None = None
    #: Whether a load asks, which may establish the first revision and one that replaces no serving replica.
    for_load: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The revision that the rows name, and the time of the database."""

    revision: str | None
    since: datetime | None
    #: Whether a loaded replica has this revision.
    serves: bool
    now: datetime


class Standing(StrEnum):
    """What became of a revision that a frontend put forward."""

    SET = "set"  # it is in force from now on
    STANDS = "stands"  # it was in force already
    OTHER = "other"  # another one is in force, and this one is not proven newer
    NEVER_SERVED = "never_served"  # no load has asked for the model yet: the first one establishes its revision


def judge(revision: str, evidence: Evidence, in_force: InForce) -> Standing:
    """Decide about a revision. A file time ahead of the database's clock proves nothing."""
    if in_force.revision is None:
        return Standing.SET if evidence.for_load else Standing.NEVER_SERVED
    if in_force.revision == revision:
        return Standing.STANDS
    written = evidence.changed_at
    is_newer = written is not None and in_force.since is not None and in_force.since < written <= in_force.now
    replaces_nothing = evidence.for_load and not in_force.serves
    return Standing.SET if is_newer or replaces_nothing or evidence.was == in_force.revision else Standing.OTHER
