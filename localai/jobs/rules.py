"""Which moves a job may make, who may make them, and what has to be told afterwards.

The table `MOVES` is the state machine. `decide` applies it to values: it is what an in-memory store does, and what the
statements of ``queries.sql`` do again in their ``WHERE``. ``docs/reference/jobs.md`` is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localai.jobs import effect_rules
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Claim,
    Command,
    ConfirmStop,
    Event,
    Fail,
    Finish,
    FinishWork,
    GiveUpStop,
    Lapse,
    Missing,
    NewIncarnation,
    Place,
    Progress,
    Release,
    Relocate,
    Renew,
    Reported,
    Requeue,
    Resend,
    RetryStop,
    SendOrder,
    SendStop,
    Take,
    TellProgress,
    TellResult,
    TellRouting,
    WakeControl,
    WorkGone,
)
from localai.jobs.guard_rules import (
    about_process_there,
    adoptions_left,
    claimed_by_it,
    claims_its_orders,
    dispatch_window_over,
    generation_matches,
    heard_of,
    lease_lapsed,
    lease_valid,
    names_operation,
    not_placed,
    older_incarnation,
    operation_ready,
    owned,
    proves_end,
    revision_unchanged,
    same_incarnation,
    sent_to_legacy_node,
    stop_due,
    stop_pending,
    stop_window_over,
    unclaimed,
    unclaimed_or_same_incarnation,
    younger_than_claim,
)
from localai.jobs.job import DOOMED, LIVE, Job, State, StopState, Windows
from localai.jobs.operation_rules import OpState

Guard = Callable[[Job, Any, datetime], bool]
Effect = Callable[[Job, Any, datetime, Windows], Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One row of the state machine."""

    event: type[Event]
    #: Who makes it: the words of the documentation.
    by: str
    sources: frozenset[State]
    guards: tuple[Guard, ...]
    #: None where the state stays.
    target: State | None
    effect: Effect
    commands: Callable[[Job], tuple[Command, ...]]
    #: What changes in the row, for people.
    says: str


def _order(job: Job) -> tuple[Command, ...]:
    assert job.node_id is not None and job.op_generation is not None
    return (SendOrder(job.node_id, job.id, job.op_generation),)


def _reported(job: Job) -> tuple[Command, ...]:
    if job.op_state in (OpState.READY, OpState.ENDED):
        return (WakeControl(job.id, job.generation), TellProgress(job.id))
    return (TellProgress(job.id),)


def _ended(job: Job) -> tuple[Command, ...]:
    told = TellResult(job.id, job.state)
    if job.stop_state == StopState.PENDING:
        return (told, SendStop(job.id, job.generation))
    return (told,)


def _routed(job: Job) -> tuple[Command, ...]:
    return (TellRouting(), TellResult(job.id, job.state))


def _result(job: Job) -> tuple[Command, ...]:
    return (TellResult(job.id, job.state),)


def _wake(job: Job) -> tuple[Command, ...]:
    return (WakeControl(job.id, job.generation),)


def _tell(job: Job) -> tuple[Command, ...]:
    return (TellProgress(job.id),)


def _stop(job: Job) -> tuple[Command, ...]:
    return (SendStop(job.id, job.generation),)


def _nothing(job: Job) -> tuple[Command, ...]:
    return ()


_QUEUED, _RUNNING = frozenset({State.QUEUED}), frozenset({State.RUNNING})

MOVES: tuple[Move, ...] = (
    Move(
        event=Take,
        by="a control worker",
        sources=_QUEUED,
        guards=(generation_matches,),
        target=State.RUNNING,
        effect=effect_rules.take,
        commands=_nothing,
        says="owner, lease, attempts + 1",
    ),
    Move(
        event=Place,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, lease_valid, not_placed),
        target=None,
        effect=effect_rules.place,
        commands=_order,
        says="node, op_generation, order, dispatch window; a replica row `staging` that reserves slot and memory",
    ),
    Move(
        event=Relocate,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, lease_valid, unclaimed, claims_its_orders),
        target=None,
        effect=effect_rules.relocate,
        commands=_order,
        says="another node and a new op_generation; the replica row moves along, the node before is marked silent",
    ),
    Move(
        event=Resend,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, unclaimed, dispatch_window_over),
        target=None,
        effect=effect_rules.resend,
        commands=_order,
        says="the dispatch window doubles, up to 16 times the first",
    ),
    Move(
        event=Claim,
        by="the agent",
        sources=_RUNNING,
        guards=(names_operation, unclaimed_or_same_incarnation),
        target=None,
        effect=effect_rules.claim,
        commands=_tell,
        says="node_incarnation; the answer is the grant without which nothing starts",
    ),
    Move(
        event=Reported,
        by="the agent",
        sources=_RUNNING,
        guards=(names_operation, claimed_by_it),
        target=None,
        effect=effect_rules.report,
        commands=_reported,
        says="phase, progress, op_state; the answer is the operation's renewal",
    ),
    Move(
        event=Missing,
        by="the agent",
        sources=_RUNNING,
        guards=(names_operation, claimed_by_it, younger_than_claim),
        target=None,
        effect=effect_rules.missing,
        commands=_reported,
        says="op_missing + 1; at three the operation has ended",
    ),
    Move(
        event=Renew,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, lease_valid),
        target=None,
        effect=effect_rules.renew,
        commands=_nothing,
        says="lease; a lapsed one is never revived",
    ),
    Move(
        event=Progress,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, lease_valid),
        target=None,
        effect=effect_rules.progress,
        commands=_tell,
        says="progress of work that the owner does itself",
    ),
    Move(
        event=Finish,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, lease_valid, operation_ready, revision_unchanged, same_incarnation),
        target=State.SUCCEEDED,
        effect=effect_rules.finish,
        commands=_routed,
        says="the replica row becomes `loaded`, the routing version rises",
    ),
    Move(
        event=FinishWork,
        by="the owner",
        sources=_RUNNING,
        guards=(owned, lease_valid, not_placed),
        target=State.SUCCEEDED,
        effect=effect_rules.finish,
        commands=_result,
        says="kinds whose work lives in the owner",
    ),
    Move(
        event=Fail,
        by="the owner",
        sources=_RUNNING,
        guards=(owned,),
        target=State.FAILED,
        effect=effect_rules.fail,
        commands=_ended,
        says="cause, hold, stop",
    ),
    Move(
        event=Adopt,
        by="the sweep of the new owner",
        sources=_RUNNING,
        guards=(generation_matches, lease_lapsed, adoptions_left, heard_of),
        target=None,
        effect=effect_rules.adopt,
        commands=_tell,
        says="a new generation, owner, lease; adoptions + 1 where the owner was lost; the operation keeps its name, "
        "the agent is sent nothing",
    ),
    Move(
        event=Release,
        by="an owner that ends",
        sources=_RUNNING,
        guards=(owned, lease_valid, heard_of),
        target=None,
        effect=effect_rules.release,
        commands=_nothing,
        says="the lease has lapsed and was given back; kinds that another owner goes on with",
    ),
    Move(
        event=Lapse,
        by="any sweep",
        sources=_RUNNING,
        guards=(generation_matches, lease_lapsed),
        target=State.FAILED,
        effect=effect_rules.lapse,
        commands=_ended,
        says="cause, hold, stop; kinds whose work may run on a node, where they cannot be adopted",
    ),
    Move(
        event=Requeue,
        by="any sweep",
        sources=_RUNNING,
        guards=(generation_matches, lease_lapsed, not_placed),
        target=State.QUEUED,
        effect=effect_rules.requeue,
        commands=_wake,
        says="a new generation, no owner; attempts - 1 where it was given back; kinds whose work lived in the owner",
    ),
    Move(
        event=NewIncarnation,
        by="a registering agent",
        sources=_RUNNING,
        guards=(older_incarnation,),
        target=State.FAILED,
        effect=effect_rules.new_incarnation,
        commands=_ended,
        says="cause, hold; confirmed at once: registration follows the end of every leftover",
    ),
    Move(
        event=Cancel,
        by="anybody",
        sources=LIVE,
        guards=(),
        target=State.CANCELLED,
        effect=effect_rules.cancel,
        commands=_ended,
        says="hold, stop; a repeat changes nothing",
    ),
    Move(
        event=ConfirmStop,
        by="the agent",
        sources=DOOMED,
        guards=(stop_pending, proves_end),
        target=None,
        effect=effect_rules.confirm,
        commands=_result,
        says="stop confirmed, the hold shortened to the report window, the replica row gone",
    ),
    Move(
        event=RetryStop,
        by="any sweep",
        sources=DOOMED,
        guards=(stop_pending, stop_due),
        target=None,
        effect=effect_rules.retry_stop,
        commands=_stop,
        says="the stop is sent again, with back-off, also after the hold",
    ),
    Move(
        event=GiveUpStop,
        by="any sweep",
        sources=DOOMED,
        guards=(stop_pending, sent_to_legacy_node, stop_window_over),
        target=None,
        effect=effect_rules.give_up_stop,
        commands=_result,
        says="no stop any more, the replica row gone: the one stop that ends with time",
    ),
    Move(
        event=WorkGone,
        by="the agent",
        sources=LIVE,
        guards=(about_process_there,),
        target=State.SUCCEEDED,
        effect=effect_rules.work_gone,
        commands=_result,
        says="a `replica.cleanup` job whose process is not in a full report",
    ),
)
_BY_EVENT: Mapping[type[Event], Move] = {move.event: move for move in MOVES}


@dataclass(frozen=True, slots=True)
class Accepted:
    job: Job
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing changed. ``reason`` is ``state`` or the name of the guard that did not hold."""

    reason: str


def decide(job: Job, event: Event, now: datetime, windows: Windows) -> Accepted | Refused:
    """The job after the event, or why the event touches nothing. ``now`` is the database's clock."""
    move = _BY_EVENT[type(event)]
    if job.state not in move.sources:
        return Refused("state")
    for guard in move.guards:
        if not guard(job, event, now):
            return Refused(guard.__name__)
    moved = move.effect(job, event, now, windows)
    return Accepted(moved, move.commands(moved))


def commands(event: type[Event], moved: Job) -> tuple[Command, ...]:
    """What to tell after a store accepted ``event`` and returned the row as it is now."""
    return _BY_EVENT[event].commands(moved)


def moves_table() -> str:
    """The table of ``docs/reference/jobs.md``."""
    lines = ["| from | event | by | holds | to | changes |", "|---|---|---|---|---|---|"]
    for move in MOVES:
        sources = ", ".join(state.value for state in State if state in move.sources)
        guards = "; ".join((guard.__doc__ or "") for guard in move.guards) or "-"
        target = move.target.value if move.target else "same"
        lines.append(f"| {sources} | {move.event.__name__} | {move.by} | {guards} | {target} | {move.says} |")
    return "\n".join(lines) + "\n"
