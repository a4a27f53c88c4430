"""What keeps an unload or a drain from its end, as a value and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: More would not fit on a line; the children of the job and the node's replicas say it all.
_SHOWN = 3
#: Statuses in which an agent answers.
_PRESENT = ("healthy", "draining")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """One replica of an unload or a drain that is still there."""

    node: str
    node_id: str
    node_status: str
    #: Whether it ever served. What did not belongs to a load that was cancelled.
    served: bool
    #: Requests that web processes have acknowledged to be with it.
    in_flight: int
    #: Live web processes that have not said anything yet.
    silent: int
    #: The worker's own word about a stop it could not carry out.
    refused: str | None = None


def progress_text(left: Sequence[Left]) -> str:
    """Why the unload is not done, for people."""
    parts = [_reason(one) for one in left[:_SHOWN]]
    if len(left) > _SHOWN:
        parts.append(f"{len(left) - _SHOWN} more")
    return "; ".join(parts)


def refusal(left: Sequence[Left]) -> str | None:
    """What a worker says to a stop it could not carry out."""
    return next((one.refused for one in left if one.refused), None)


def _reason(one: Left) -> str:
    if one.served and one.in_flight:
        return f"{_count(one.in_flight, 'request')} in flight on {one.node}"
    if one.served and one.silent:
        return f"{_count(one.silent, 'frontend')} still to confirm for {one.node}"
    where = one.node if one.node_status in _PRESENT else f"{one.node}, which is {one.node_status}"
    return f"being stopped on {where}" + (f" ({one.refused})" if one.refused else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
