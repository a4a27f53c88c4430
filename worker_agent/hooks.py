"""Where a test may hold or end the agent between two steps. In production every hook does nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from localai import crash_points


def _nothing(name: str) -> None:
    """The hook of production."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Named points that a test can wait at. Each gets the job id, process instance, or file it is about."""

    #: The order came from the queue; nothing is in the table.
    received: Callable[[str], None] = _nothing
    #: The operation is in the table; nothing was claimed.
    entered: Callable[[str], None] = _nothing
    #: The grant arrived and is in the table; nothing of the operation has begun.
    granted: Callable[[str], None] = _nothing
    #: A backend lies complete beside its place.
    installing: Callable[[str], None] = _nothing
    #: The backend is in its place; no file was asked for.
    installed: Callable[[str], None] = _nothing
    #: Every byte of a file is here; its digest was not compared.
    received_file: Callable[[str], None] = _nothing
    #: The digest of a file is right; it has not its name.
    verified: Callable[[str], None] = _nothing
    #: A file has its name; the cache of digests does not know it.
    renamed: Callable[[str], None] = _nothing
    #: The start is in the journal; nothing was forked.
    journaled: Callable[[str], None] = _nothing
    #: The launcher was forked; its pid is not in the journal yet.
    forked: Callable[[str], None] = _nothing
    #: The pid is in the journal; the launcher waits at its gate.
    held: Callable[[str], None] = _nothing
    #: The process may run; nobody has asked it anything.
    released: Callable[[str], None] = _nothing
    #: The process answers Health; LoadModel was not sent.
    healthy: Callable[[str], None] = _nothing
    #: LoadModel was sent; no answer has come.
    loading: Callable[[str], None] = _nothing
    #: LoadModel succeeded; READY has not been asked for yet.
    loaded: Callable[[str], None] = _nothing
    #: The table says READY; a report may be under way.
    ready: Callable[[str], None] = _nothing
    #: READY was reported; the answer came and was not read.
    reported: Callable[[str], None] = _nothing
    #: A stop came; nothing was decided.
    stopping: Callable[[str], None] = _nothing
    #: The end of a process was decided; no signal has been sent.
    ending: Callable[[str], None] = _nothing
    #: TERM was sent.
    terminated: Callable[[str], None] = _nothing
    #: The group is empty; nobody was told.
    ended: Callable[[str], None] = _nothing
    #: The group is empty; the stop is not answered.
    answering: Callable[[str], None] = _nothing


def crash_hooks() -> Hooks:
    """Hooks that are the crash points ``agent.<name>``: they do nothing in a process that is not armed."""
    return Hooks(**{field.name: partial(_reach, f"agent.{field.name}") for field in fields(Hooks)})


def _reach(point: str, _about: str) -> None:
    crash_points.reach(point)
