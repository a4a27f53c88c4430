"""What is a child of the supervisor, and when is it ready?"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localai.embedded.account import Account

#: Whether the child is ready now. Called again and again from the main thread, so it must answer within about a second.
#: Raises StartRefused if it never will be.
Probe = Callable[[], bool]


def _at_once() -> bool:
    return True


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One process of the supervisor's list."""

    name: str
    argv: tuple[str, ...]  # argv[0] is an absolute path
    env: Mapping[str, str] = field(repr=False)
    cwd: Path
    log: Path | None  # where its output goes; None = where ours goes
    account: Account | None = None
    ready: Probe = _at_once
    ready_limit_s: float = 60.0
    #: How long a child that ends before it was ready is started again: what an earlier life left behind (a port, a
    #: process that nobody reaped yet) is gone by then.
    retry_start_s: float = 10.0
    #: Raises OSError, StartRefused.
    before_start: Callable[[], None] = _nothing
    stop_signal: signal.Signals = signal.SIGTERM
    stop_timeout_s: float = 10.0
    #: What the system sends it when the supervisor dies without stopping it.
    parent_death_signal: signal.Signals = signal.SIGTERM
    restart: bool = True
    #: For a server whose data may be lost: moves the data away, prepares an empty folder, returns where the data went.
    #: Raises OSError, StartRefused. None = its data is kept whatever happens.
    set_aside: Callable[[], Path] | None = None
