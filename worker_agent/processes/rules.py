"""What becomes of an operation and its process when something is granted, answered, timed, stopped or ends.

Values in, values out: no lock, no clock, no process. ``docs/reference/agent.md`` draws the stages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from localai.jobs.operation_rules import (
    Answer,
    Cause,
    OperationError,
    OperationReport,
    OpState,
    Phase,
    ProcessReport,
    StopOutcome,
    StopRequest,
    process_key,
)

#: Three refused connections in a row while the process lives: it serves nobody. A busy one still accepts.
REFUSALS_THAT_END = 3


class Stage(StrEnum):
    """How far one operation is on this agent."""

    CLAIMING = "claiming"  # in the table, not granted: nothing may start
    WORKING = "working"  # granted; installs, stages, starts or loads
    READY = "ready"  # LoadModel succeeded and the process lives: no timer ends it any more
    ENDING = "ending"  # decided: it will never be READY, its group is being ended
    ENDED = "ended"  # nothing of it runs; said in every report until a terminal row answers
    COMPLETE = "complete"  # its row succeeded: the operation is over, the process stays
    GONE = "gone"  # its row is terminal, or it was refused: a tombstone


#: Kept for the life of the incarnation, so that a late or doubled message finds them.
TOMBSTONES = frozenset({Stage.COMPLETE, Stage.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation as this agent knows it. Times are of `localai.clock.boottime`."""

    job_id: str
    op_generation: int
    stage: Stage = Stage.CLAIMING
    phase: Phase = Phase.PENDING
    #: Known from the grant on.
    process_key: str | None = None
    #: When the question was sent whose answer lets this operation live.
    kept_at: float = 0.0
    deadline_at: float = float("inf")
    #: The same as a duration, as its order gave it.
    deadline_s: float = float("inf")
    #: From a frontend that predates operations: no row answers for it, so it needs no renewal and no completion.
    anonymous: bool = False
    bytes_done: int = 0
    bytes_total: int = 0
    file_index: int = 0
    files_total: int = 0
    message: str | None = None
    progress: int = 0
    process_instance: str | None = None
    address: str | None = None
    process_secret: str | None = field(default=None, repr=False)
    identity: str | None = None
    error: OperationError | None = None
    #: Since when nothing of it runs. Only a report sent later has said so.
    ended_at: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        return (self.job_id, self.op_generation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One live model process of this agent."""

    process_instance: str
    job_id: str
    op_generation: int
    model: str
    slot: int
    address: str
    pid: int
    ready: bool = False
    #: Its end has been decided.
    ending: bool = False
    #: Secret that each call to it sends.
    secret: str | None = field(default=None, repr=False)

    @property
    def operation_key(self) -> tuple[str, int]:
        return (self.job_id, self.op_generation)

    @property
    def process_key(self) -> str:
        return process_key(self.model, self.slot)


def granted(
    operation: Operation, *, process_key: str, sent_at: float, now: float, deadline_s: float, kill_ttl_s: float
) -> Operation:
    """The claim was granted. A stop that came first wins, and a grant older than the kill TTL is void."""
    if operation.stage is not Stage.CLAIMING:
        return operation
    if now - sent_at >= kill_ttl_s:
        return rejected(
            operation,
            OperationError(
                cause=Cause.OPERATION_KILLED,
                message=f"the grant arrived {now - sent_at:.1f} s after it was asked for; "
                f"LOCALAI_WORKER_KILL_TTL allows {kill_ttl_s:g} s",
            ),
            now=now,
        )
    return replace(
        operation,
        stage=Stage.WORKING,
        process_key=process_key,
        kept_at=sent_at,
        deadline_at=sent_at + deadline_s,
        deadline_s=deadline_s,
    )


def anonymous(name: str, *, process_key: str, now: float, deadline_s: float) -> Operation:
    """The operation of an order without one. It may work at once, and only its deadline ends it."""
    return Operation(
        job_id=name,
        op_generation=0,
        stage=Stage.WORKING,
        process_key=process_key,
        deadline_at=now + deadline_s,
        deadline_s=deadline_s,
        anonymous=True,
    )


def rejected(operation: Operation, error: OperationError, *, now: float) -> Operation:
    """A grant that cannot be used: nothing started, and the row learns it by the next report."""
    if operation.stage is not Stage.CLAIMING:
        return operation
    return replace(operation, stage=Stage.ENDED, error=error, ended_at=now)


def buried(operation: Operation) -> Operation:
    """The tombstone of an operation that the row refused."""
    return replace(operation, stage=Stage.GONE) if operation.stage is Stage.CLAIMING else operation


def watched(operation: Operation, *, now: float, kill_ttl_s: float) -> Operation:
    """The watchdog's decision: ENDING when nobody renewed the operation or its deadline is over, unless it is READY."""
    if operation.stage is not Stage.WORKING:
        return operation
    unrenewed_s = now - operation.kept_at
    if unrenewed_s >= kill_ttl_s and not operation.anonymous:
        why = f"nobody renewed the operation for {unrenewed_s:.1f} s; LOCALAI_WORKER_KILL_TTL allows {kill_ttl_s:g} s"
    elif now >= operation.deadline_at:
        why = (
            f"the operation passed the deadline of its order while it was {operation.phase.value}: "
            f"{operation.deadline_s:g} s after it was claimed; LOCALAI_STAGING_MAX_DURATION sets the cap"
        )
    else:
        return operation
    return doomed(operation, OperationError(cause=Cause.OPERATION_KILLED, message=why))


def ready(operation: Operation, *, process_lives: bool, identity: str) -> Operation:
    """LoadModel succeeded. READY only for an operation that was not doomed and whose process lives.

    An anonymous one is complete with it: no row will say so.
    """
    if operation.stage is not Stage.WORKING or not process_lives:
        return operation
    stage = Stage.COMPLETE if operation.anonymous else Stage.READY
    return replace(operation, stage=stage, identity=identity, progress=operation.progress + 1)


def doomed(operation: Operation, error: OperationError) -> Operation:
    """The operation is to end. The first reason stays; one that never started leaves a tombstone."""
    match operation.stage:
        case Stage.CLAIMING:
            return replace(operation, stage=Stage.GONE)
        case Stage.WORKING | Stage.READY:
            return replace(operation, stage=Stage.ENDING, error=error)
        case _:
            return operation


def settled(operation: Operation, *, thread_works: bool, process_lives: bool, now: float) -> Operation:
    """ENDED once nothing of the operation runs any more: neither its thread nor its process group."""
    if thread_works or process_lives:
        return operation
    match operation.stage:
        case Stage.ENDING if operation.anonymous:
            return replace(operation, stage=Stage.GONE)  # nobody acknowledges its end
        case Stage.ENDING:
            return replace(operation, stage=Stage.ENDED, ended_at=now)
        case Stage.READY:
            error = OperationError(
                cause=Cause.PROCESS_ENDED, message="the model process ended before its load was committed"
            )
            return replace(operation, stage=Stage.ENDED, error=error, ended_at=now)
        case _:
            return operation


def answered(operation: Operation, answer: Answer, *, sent_at: float) -> Operation:
    """The row's answer to a report. A renewal counts from the moment the report was sent.

    An end is acknowledged only by the answer to a report that said it: an older one may be under way.
    """
    match answer, operation.stage:
        case Answer.KEEP, Stage.WORKING:
            return replace(operation, kept_at=max(operation.kept_at, sent_at))
        case Answer.COMPLETE, Stage.READY:
            return replace(operation, stage=Stage.COMPLETE)
        case ((Answer.COMPLETE | Answer.STOP), Stage.ENDED) if sent_at > operation.ended_at:
            return replace(operation, stage=Stage.GONE)
        case Answer.STOP, _:
            return doomed(operation, OperationError(cause=Cause.CANCELLED, message="its job row asked for the end"))
        case _:
            return operation


class StopMove(StrEnum):
    """What an exact stop does to the table."""

    NOTHING = "nothing"
    BURY = "bury"  # a tombstone: a grant or message that comes later starts nothing
    END = "end"  # the operation and its group end


@dataclass(frozen=True, slots=True)
class StopPlan:
    outcome: StopOutcome
    move: StopMove


def stop_plan(request: StopRequest, operation: Operation | None, process: Running | None) -> StopPlan:
    """What an exact stop may do. ``process`` is the one the request names, else the one of its operation."""
    if process is not None and _other_process(request, process):
        return StopPlan(StopOutcome.NOT_MINE, StopMove.NOTHING)
    if operation is None or operation.stage is Stage.CLAIMING:
        return StopPlan(StopOutcome.ALREADY_GONE, StopMove.BURY)
    if _other_operation(request, operation):
        return StopPlan(StopOutcome.NOT_MINE, StopMove.NOTHING)
    if operation.stage is not Stage.COMPLETE:
        ended = operation.stage in (Stage.ENDED, Stage.GONE)
        return _GONE_ALREADY if ended else _END
    if process is None:
        return _GONE_ALREADY
    # Only a stop that names the instance ends a process that serves.
    return _END if request.process_instance else StopPlan(StopOutcome.FINISHED, StopMove.NOTHING)


_END = StopPlan(StopOutcome.TERMINATED, StopMove.END)
_GONE_ALREADY = StopPlan(StopOutcome.ALREADY_GONE, StopMove.NOTHING)


def _other_process(request: StopRequest, process: Running) -> bool:
    return (
        process.operation_key != (request.job_id, request.op_generation)
        or process.process_key != request.process_key
        or request.address not in (None, process.address)
        or request.process_instance not in (None, process.process_instance)
    )


def _other_operation(request: StopRequest, operation: Operation) -> bool:
    if operation.process_key is None:
        return False  # nothing was granted: there is nothing to compare, and nothing to stop
    return (
        operation.process_key != request.process_key
        or request.address not in (None, operation.address)
        or request.process_instance not in (None, operation.process_instance)
    )


class StartMove(StrEnum):
    """Whether an operation may start its process now."""

    START = "start"
    WAIT = "wait"  # the process of an earlier operation is being ended
    REFUSE = "refuse"  # an earlier process of the same key serves, and no row has doomed it


def start_move(operation: Operation, running: Iterable[Running]) -> StartMove:
    """Look for another operation's process under the same key."""
    others = [
        process
        for process in running
        if process.process_key == operation.process_key and process.operation_key != operation.key
    ]
    if not others:
        return StartMove.START
    return StartMove.WAIT if all(process.ending for process in others) else StartMove.REFUSE


def refusals_after(refusals: int, *, refused: bool) -> tuple[int, bool]:
    """Refused connections in a row, and whether the process is to be ended for them. A slow answer is none."""
    refusals = refusals + 1 if refused else 0
    return refusals, refusals >= REFUSALS_THAT_END


_SAID_AS = {
    # A claim whose answer is under way may already stand in the row: "sent" would take it back.
    Stage.CLAIMING: OpState.CLAIMED,
    Stage.WORKING: OpState.CLAIMED,
    Stage.ENDING: OpState.CLAIMED,
    Stage.READY: OpState.READY,
    Stage.ENDED: OpState.ENDED,
}


def operation_report(operation: Operation) -> OperationReport | None:
    """How a report names this operation; None for a tombstone, and for one that no row knows."""
    state = _SAID_AS.get(operation.stage)
    if state is None or operation.anonymous:
        return None
    return OperationReport(
        job_id=operation.job_id,
        op_generation=operation.op_generation,
        op_state=state,
        phase=operation.phase,
        bytes_done=operation.bytes_done,
        bytes_total=operation.bytes_total,
        file_index=operation.file_index,
        files_total=operation.files_total,
        message=operation.message,
        progress=operation.progress,
        process_instance=operation.process_instance,
        address=operation.address,
        identity=operation.identity,
        error=operation.error if operation.stage is Stage.ENDED else None,
        process_secret=operation.process_secret if state is OpState.READY else None,
    )


def process_report(process: Running) -> ProcessReport:
    """How a report names this process. One that is being ended serves nobody."""
    return ProcessReport(
        process_instance=process.process_instance,
        model=process.model,
        slot=process.slot,
        job_id=process.job_id,
        op_generation=process.op_generation,
        address=process.address,
        pid=process.pid,
        ready=process.ready and not process.ending,
    )
