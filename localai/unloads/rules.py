"""What keeps an unload or a drain from its end, as a value and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

#: More would not fit on a line; the children of the job and the node's replicas say it all.
_SHOWN = 3
#: Statuses in which an agent answers.
_PRESENT = ("healthy", "draining")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One replica of an unload or a drain that is still there."""

    model: str
    node: str
    node_id: str
    node_status: str
    #: Whether it ever served. What did not belongs to a load that was cancelled.
    served: bool
    #: Requests that web processes have acknowledged to be with it.
    in_flight: int
    #: Live web processes that have not said anything yet.
    silent: int
    #: When its requests are cut, of a replica that waits for them; None if they are not.
    cut_at: datetime | None = None
    #: The worker's own word about a stop it could not carry out.
    refused: str | None = None


def progress_text(left: Sequence[Left]) -> str:
    """Why the unload of one model is not done, for people."""
    return _joined([(reason, len(ones)) for reason, ones in _by_reason(left).items()])


def drain_text(left: Sequence[Left]) -> str:
    """Why a node is not drained yet, for people: the models, and what keeps them."""
    models = {reason: dict.fromkeys(one.model for one in ones) for reason, ones in _by_reason(left).items()}
    return _joined([(f"{', '.join(names)}: {reason}", len(names)) for reason, names in models.items()])


def refusal(left: Sequence[Left]) -> str | None:
    """What a worker says to a stop it could not carry out."""
    return next((one.refused for one in left if one.refused), None)


def _by_reason(left: Sequence[Left]) -> Mapping[str, list[Left]]:
    """What keeps several of them is said once."""
    found: dict[str, list[Left]] = {}
    for one in left:
        found.setdefault(_reason(one), []).append(one)
    return found


def _joined(parts: Sequence[tuple[str, int]]) -> str:
    """The first parts, and how many things the others are about."""
    more = sum(count for _, count in parts[_SHOWN:])
    return "; ".join([*(text for text, _ in parts[:_SHOWN]), *([f"{more} more"] if more else [])])


def _reason(one: Left) -> str:
    if one.served and one.in_flight:
        cut = f", cut at {one.cut_at.astimezone(UTC):%H:%M:%S} UTC" if one.cut_at else ""
        return f"{_count(one.in_flight, 'request')} in flight on {one.node}{cut}"
    if one.served and one.silent:
        return f"{_count(one.silent, 'frontend')} still to confirm for {one.node}"
    where = one.node if one.node_status in _PRESENT else f"{one.node}, which is {one.node_status}"
    return f"being stopped on {where}" + (f" ({one.refused})" if one.refused else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
