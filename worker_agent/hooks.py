"""Where a test may hold the agent between two steps. In production every hook does nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _nothing(name: str) -> None:
    """The hook of production."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Named points that a test can wait at. Each gets the job id or process instance it is about."""

    #: The grant arrived and is in the table; nothing of the operation has begun.
    granted: Callable[[str], None] = _nothing
    #: The launcher was forked; its pid is not in the journal yet.
    forked: Callable[[str], None] = _nothing
    #: LoadModel succeeded; READY has not been asked for yet.
    loaded: Callable[[str], None] = _nothing
    #: The end of a process was decided; no signal has been sent.
    ending: Callable[[str], None] = _nothing
