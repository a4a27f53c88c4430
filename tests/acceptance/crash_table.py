"""What is left when a process of ours dies at a crash point? One table: the sweep checks it, the reference page is it.

``python -m tests.acceptance.crash_table --write docs/reference/crash-points.md``, or ``--check``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum

from localai.crash_points import POINTS
from localai.generated_pages import page_command


class Way(StrEnum):
    """What the test does that leads to the point."""

    FIRST = "a first request for a model"
    BACKEND = "a first request, and the backend is not installed"
    FILE = "a first request for a model with a file"
    REFUSED = "a first request, and the backend refuses the model"
    ADOPTED = "a first request; the owner is killed, and its successor dies at the point"
    RELEASED = "a first request; the owner is told to stop (TERM) while the model loads"
    CANCEL = "a cancel while the model loads"
    UNLOAD = "an unload of a loaded model"
    PROCESS_STARTS = "kill -9 of the model process before it answers Health"
    PROCESS_LOADS = "kill -9 of the model process during LoadModel"


#: What a client under way may be told.
ANSWER = "the answer"
CUT = "its connection ends"
RESTARTED, CANCELLED, REFUSED = "503 worker_restarted", "503 cancelled", "503 load_refused"
UNAVAILABLE, CRASHED, LOST = "503 backend_unavailable", "502 backend_crashed", "503 owner_lost"

#: What the attempts of the model may be in the end, first one first. Each row has `attempts` 1.
Loads = tuple[str, ...]
ONE: tuple[Loads, ...] = (("succeeded",),)
AFTER_RESTART: tuple[Loads, ...] = (("failed worker_restarted", "succeeded"),)
AFTER_CANCEL: tuple[Loads, ...] = (("cancelled", "succeeded"),)
TWICE: tuple[Loads, ...] = (("succeeded", "succeeded"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A point, how it is reached, and every outcome that is right."""

    point: str
    way: Way
    client: tuple[str, ...]
    loads: tuple[Loads, ...]
    why: str
    #: Part of the short sweep.
    short: bool = False

    @property
    def process(self) -> str:
        return POINTS[self.point].process if self.point in POINTS else "model process"

    @property
    def done(self) -> str:
        return POINTS[self.point].done if self.point in POINTS else "it was started by an order"


def _cases(
    way: Way, points: str, client: tuple[str, ...], loads: tuple[Loads, ...], why: str, *, short: str = ""
) -> list[Case]:
    return [
        Case(point=point, way=way, client=client, loads=loads, why=why, short=point in short.split())
        for point in points.split()
    ]


CASES: tuple[Case, ...] = (
    *_cases(
        Way.FIRST,
        "load.requested.before",
        (CUT,),
        ONE,
        "Nothing was written; the next request begins the load.",
    ),
    *_cases(
        Way.FIRST,
        "load.requested.after load.claimed.before load.claimed.after load.operation_ready.before "
        "load.operation_ready.after",
        (CUT,),
        ONE,
        "The load goes on without the web process: the sweep takes it, the agent asks the next one again.",
    ),
    *_cases(
        Way.FIRST,
        "load.taken.before",
        (ANSWER,),
        ONE,
        "The job is still queued; the next sweep takes it.",
    ),
    *_cases(
        Way.FIRST,
        "load.taken.after load.placed.before",
        (ANSWER,),
        ONE,
        "Nothing was sent to a node: the new owner places it.",
    ),
    *_cases(
        Way.FIRST,
        "load.placed.after",
        (LOST,),
        (("failed owner_lost", "succeeded"),),
        "Whether the order was sent is not known and no report lists it: the attempt fails, the next one is not held long.",
    ),
    *_cases(
        Way.FIRST,
        "owner.order_sent load.succeeded.before",
        (ANSWER,),
        ONE,
        "The agent works on; a report that lists the operation lets another owner adopt it.",
        short="owner.order_sent",
    ),
    *_cases(Way.FIRST, "load.succeeded.after", (ANSWER,), ONE, "It is loaded; waiters find that by their poll."),
    *_cases(
        Way.ADOPTED,
        "load.adopted.before load.adopted.after",
        (ANSWER,),
        ONE,
        "A load may change its owner three times.",
    ),
    *_cases(
        Way.RELEASED,
        "load.released.before load.released.after",
        (ANSWER,),
        ONE,
        "The lease lapses, or was given back: another owner adopts the load.",
    ),
    *_cases(
        Way.FIRST,
        "agent.received agent.entered",
        (ANSWER,),
        ONE,
        "Nothing was claimed: the order is sent again, and the next life claims it.",
    ),
    *_cases(
        Way.FIRST,
        "agent.granted agent.journaled agent.forked agent.held agent.released agent.healthy agent.loading agent.loaded",
        (RESTARTED,),
        AFTER_RESTART,
        "The next life ends what the journal names, and its registration fails what the last one had claimed.",
        short="agent.forked agent.loaded",
    ),
    *_cases(
        Way.FIRST,
        "agent.ready agent.reported",
        (ANSWER, RESTARTED, UNAVAILABLE, CRASHED),
        (*TWICE, *AFTER_RESTART),
        "Either the owner commits the success first, and the registration takes the replica away, or it fails.",
    ),
    *_cases(
        Way.BACKEND,
        "agent.installing agent.installed",
        (RESTARTED,),
        AFTER_RESTART,
        "Half a backend is removed by the next life; a whole one is kept.",
    ),
    *_cases(
        Way.FILE,
        "agent.received_file agent.verified agent.renamed",
        (RESTARTED,),
        AFTER_RESTART,
        "Bytes that are here are hashed again and not fetched again.",
        short="agent.verified",
    ),
    *_cases(
        Way.FILE,
        "install.taken.before install.taken.after install.succeeded.before install.succeeded.after",
        (ANSWER,),
        ONE,
        "Fetching and hashing is done again by another owner; the load is placed by its new owner.",
    ),
    *_cases(
        Way.REFUSED,
        "load.failed.before load.failed.after",
        (REFUSED,),
        (("failed load_refused",),),
        "The group has ended before the error was reported; whoever owns the row writes the cause.",
    ),
    *_cases(
        Way.CANCEL,
        "load.cancelled.before load.cancelled.after",
        (CUT,),
        AFTER_CANCEL,
        "The cancel is repeated, or was committed: then the sweep sends the stop.",
    ),
    *_cases(
        Way.CANCEL,
        "owner.stopping owner.stop_answered",
        (CANCELLED,),
        AFTER_CANCEL,
        "The stop stays pending in the row; the report of the agent or another sweep confirms it.",
    ),
    *_cases(
        Way.CANCEL,
        "load.stop_confirmed.before load.stop_confirmed.after",
        (CANCELLED, CUT),
        AFTER_CANCEL,
        "The proof is given again, or is written.",
    ),
    *_cases(
        Way.CANCEL,
        "agent.stopping agent.ending agent.terminated agent.ended agent.answering",
        (CANCELLED,),
        AFTER_CANCEL,
        "The group dies with its agent; the registration of the next life is the proof.",
        short="agent.terminated",
    ),
    *_cases(
        Way.UNLOAD,
        "unload.requested.before unload.requested.after",
        (CUT,),
        TWICE,
        "The unload is asked for again, or is under way.",
    ),
    *_cases(
        Way.UNLOAD,
        "unload.taken.before unload.taken.after unload.succeeded.before unload.succeeded.after cleanup.taken.before "
        "cleanup.taken.after",
        (ANSWER,),
        TWICE,
        "The rows say how far it is; another owner goes on.",
    ),
    Case(
        point="process.starts",
        way=Way.PROCESS_STARTS,
        client=("503 start_failed",),
        loads=(("failed start_failed", "succeeded"),),
        why="The agent saw its child end; the attempt fails at once, the next one begins after the report window.",
    ),
    Case(
        point="process.loads",
        way=Way.PROCESS_LOADS,
        client=("503 process_ended",),
        loads=(("failed process_ended", "succeeded"),),
        why="The agent saw its child end; the attempt fails at once, the next one begins after the report window.",
    ),
)


def page() -> str:
    """The text of ``docs/reference/crash-points.md``."""
    lines = [
        "# Crash points",
        "",
        "Made from `tests/acceptance/crash_table.py` by `make fmt`; do not edit. The table is the test",
        "(`tests/acceptance/test_crash_points.py`): each row is a real cluster in which one process kills itself with SIGKILL",
        "at exactly that point, once. `make prove` runs all of them, CI those with a star.",
        "",
        "After each row, beside what it says: a client that asks again is answered; exactly one model process serves; after an",
        "unload none is left, no job is live, no stop is pending, nothing holds the model; and the checker of the job protocol",
        "([simulator](simulator.md)) finds nothing in the history of the database.",
        "",
        "A process dies at the point that a file names (`LOCALAI_CRASH_POINT_FILE`, [fault backend](fault-backend.md)), and",
        "`localai up` starts it again.",
    ]
    for way in Way:
        lines += ["", f"## {way[0].upper()}{way[1:]}", ""]
        lines += ["| point | who dies | it has | the client gets | attempts of the model, in the end | because |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [_line(case) for case in CASES if case.way is way]
    return "\n".join(lines) + "\n"


def _line(case: Case) -> str:
    ends = "; or ".join(", then ".join(loads) for loads in case.loads)
    star = " \\*" if case.short else ""
    cells = [f"`{case.point}`{star}", case.process, case.done, " or ".join(case.client), ends, case.why]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(page_command("tests.acceptance.crash_table", page))
