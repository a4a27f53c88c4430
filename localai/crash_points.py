"""At which named points can a test have a process of ours kill itself? In production: at none.

A process is armed by ``LOCALAI_CRASH_POINT_FILE``. The file names one point; the first process that reaches it takes
the file away and dies by SIGKILL: once, however many processes there are and however often they start.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

WEB, CONTROL, AGENT = "web", "control", "agent"

#: What is added to the name of the file when its point was reached.
REACHED = ".reached"


@dataclass(frozen=True, slots=True)
class Point:
    """Which process dies there, and what it has done by then."""

    process: str
    done: str


#: Moves of a row: each has a point before its commit and one after it, and who makes it.
_MOVES: Mapping[str, str] = {
    "load.requested": WEB,
    "load.taken": CONTROL,
    "load.placed": CONTROL,
    "load.claimed": WEB,
    "load.operation_ready": WEB,
    "load.succeeded": CONTROL,
    "load.failed": CONTROL,
    "load.cancelled": WEB,
    "load.stop_confirmed": f"{CONTROL} or {WEB}",
    "load.adopted": CONTROL,
    "load.released": CONTROL,
    "install.taken": CONTROL,
    "install.succeeded": CONTROL,
    "unload.requested": WEB,
    "unload.taken": CONTROL,
    "unload.succeeded": CONTROL,
    "cleanup.taken": CONTROL,
}

#: Steps that are no moves, in the order in which a load, then its stop, comes by.
_STEPS: Mapping[str, Point] = {
    "owner.order_sent": Point(CONTROL, "the order lies in the node's queue"),
    "owner.stopping": Point(CONTROL, "the doomed row was read, no stop was sent"),
    "owner.stop_answered": Point(CONTROL, "the node has answered the stop, nothing is written"),
    "agent.received": Point(AGENT, "the order came from the queue, nothing is in the table"),
    "agent.entered": Point(AGENT, "the operation is in the table, nothing was claimed"),
    "agent.granted": Point(AGENT, "the claim was granted, nothing has begun"),
    "agent.installing": Point(AGENT, "the backend lies beside its place, unfinished"),
    "agent.installed": Point(AGENT, "the backend is in its place, no file was asked for"),
    "agent.received_file": Point(AGENT, "every byte of a file is here, its digest is not compared"),
    "agent.verified": Point(AGENT, "the digest is right, the file has not its name"),
    "agent.renamed": Point(AGENT, "the file has its name, the cache of digests does not know it"),
    "agent.journaled": Point(AGENT, "the start is in the journal, nothing was forked"),
    "agent.forked": Point(AGENT, "the launcher was forked, its pid is not in the journal"),
    "agent.held": Point(AGENT, "the pid is in the journal, the launcher waits at its gate"),
    "agent.released": Point(AGENT, "the model process may run, nobody has asked it anything"),
    "agent.healthy": Point(AGENT, "the model process answers Health, LoadModel was not sent"),
    "agent.loading": Point(AGENT, "LoadModel was sent, no answer has come"),
    "agent.loaded": Point(AGENT, "LoadModel succeeded, the table does not say READY"),
    "agent.ready": Point(AGENT, "the table says READY, a report may be under way"),
    "agent.reported": Point(AGENT, "READY was reported, the answer came and was not read"),
    "agent.stopping": Point(AGENT, "a stop came, nothing was decided"),
    "agent.ending": Point(AGENT, "the end of the group was decided, no signal was sent"),
    "agent.terminated": Point(AGENT, "TERM was sent"),
    "agent.ended": Point(AGENT, "the group is empty, nobody was told"),
    "agent.answering": Point(AGENT, "the group is empty, the stop is not answered"),
}


def _moves() -> Iterator[tuple[str, Point]]:
    for move, process in _MOVES.items():
        yield f"{move}.before", Point(process, f"`{move}` is written, the transaction is open")
        yield f"{move}.after", Point(process, f"`{move}` is committed, nobody was told")


POINTS: Mapping[str, Point] = {**dict(_moves()), **_STEPS}

_file: Path | None = None


def arm(file: Path | None) -> None:
    """Let this process die at the point that the file names, whenever the file is there. None: never."""
    global _file
    _file = file


def reach(name: str) -> None:
    """This process has come to the point."""
    if _file is not None:
        _die_if_named(_file, name)


def reach_commit(kind: str, move: str, after_commit: Callable[..., object]) -> None:
    """A move is written and its transaction open; ``after_commit`` is what calls a function once it is committed."""
    if _file is not None:
        name = f"{kind.rpartition('.')[2]}.{move}"
        after_commit(_die_if_named, _file, f"{name}.after")
        _die_if_named(_file, f"{name}.before")


def _die_if_named(file: Path, name: str) -> None:
    try:
        if file.read_text(encoding="utf-8").strip() != name:
            return
        os.rename(file, file.with_name(file.name + REACHED))
    except FileNotFoundError:  # not set, or another process was first
        return
    _die()


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")
