"""Which operations and model processes this incarnation has: one table under one lock.

READY and the decision to kill exclude each other here. Every entry first applies the watchdog: after a pause of the
machine nothing else comes before it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from localai import logs
from localai.ids import new_id
from localai.jobs.operation_rules import (
    Cause,
    OperationAnswer,
    OperationError,
    OperationReport,
    Order,
    Phase,
    ProcessReport,
    StopOutcome,
    StopRequest,
    process_key,
)
from worker_agent.processes import rules
from worker_agent.processes.rules import Operation, Running, Stage, StartMove, StopMove
from worker_agent.work import Work

log = logs.get(__name__)

Key = tuple[str, int]


class Endable(Protocol):
    """A process group as the table sees it."""

    def has_exited(self) -> bool:
        """Whether the leader of the group has ended."""

    def end_soon(self, grace_s: float | None = None) -> None:
        """End the group on another thread. May be called again. ``grace_s``: TERM to KILL, None for the usual time."""


@dataclass(slots=True)
class _Live:
    running: Running
    group: Endable


@dataclass(frozen=True, slots=True)
class Stopping:
    """The decision about an exact stop. ``instance`` is what must end before the answer is true."""

    outcome: StopOutcome
    key: Key
    instance: str | None
    must_end: bool


class Operations:
    """The authority on what runs here. Every method may be called from any thread."""

    def __init__(self, *, kill_ttl_s: float, clock: Callable[[], float], changed: Callable[[], None]) -> None:
        self._kill_ttl_s = kill_ttl_s
        self._clock = clock
        self._changed = changed
        self._lock = threading.Condition(threading.Lock())
        self._operations: dict[Key, Operation] = {}
        #: What is over, for the life of the incarnation: a late or doubled message finds it here.
        self._tombstones: dict[Key, Operation] = {}
        self._works: dict[Key, Work] = {}
        self._processes: dict[str, _Live] = {}
        self._open = True

    # What comes from the queue and from the claim

    def enter(self, key: Key) -> Work | None:
        """Enter an operation as claiming, before it is claimed. None = known already, or the agent is ending: drop."""
        with self._locked():
            if not self._open or self._find(key) is not None:
                return None
            self._operations[key] = Operation(job_id=key[0], op_generation=key[1])
            self._works[key] = work = Work()
            return work

    def enter_anonymous(self, process_key: str, deadline_s: float) -> tuple[Key, Work] | None:
        """Enter work that an older frontend ordered without an operation. None = the agent is ending: drop.

        Nobody else knows its key. It is in no report, so that no frontend takes its process for an orphan.
        """
        with self._locked():
            if not self._open:
                return None
            operation = rules.anonymous(new_id(), process_key=process_key, now=self._clock(), deadline_s=deadline_s)
            self._put(operation)
            self._works[operation.key] = work = Work()
            return operation.key, work

    def refused(self, key: Key) -> None:
        """The row refused the claim: a tombstone, so that no later message asks again."""
        with self._locked():
            self._put(rules.buried(self._get(key)))

    def forget(self, key: Key) -> None:
        """The claim found no row, or nobody answered it for too long: a later message may ask again."""
        with self._locked():
            if self._get(key).stage is Stage.CLAIMING:
                del self._operations[key]

    def granted(self, key: Key, order: Order, sent_at: float) -> bool:
        """The claim was granted. False = stopped meanwhile, or the grant is too old: nothing may start."""
        with self._locked():
            operation = rules.granted(
                self._get(key),
                process_key=process_key(order.model, order.slot),
                sent_at=sent_at,
                now=self._clock(),
                deadline_s=order.deadline_s,
                kill_ttl_s=self._kill_ttl_s,
            )
            self._put(operation)
            return operation.stage is Stage.WORKING

    def reject(self, key: Key, error: OperationError) -> None:
        """The grant cannot be used."""
        with self._locked():
            self._put(rules.rejected(self._get(key), error, now=self._clock()))

    # What the operation's own thread says

    def enter_phase(self, key: Key, phase: Phase) -> None:
        """A new phase begins. Its counters start at zero; while it loads, an operation keeps those of its staging."""
        with self._locked():
            operation = self._get(key)
            fresh = Operation(job_id=key[0], op_generation=key[1])
            counted = operation if phase is Phase.LOADING else fresh
            self._put(
                replace(
                    operation,
                    phase=phase,
                    bytes_done=counted.bytes_done,
                    bytes_total=counted.bytes_total,
                    file_index=counted.file_index,
                    files_total=counted.files_total,
                    message=None,
                    progress=operation.progress + 1,
                )
            )

    def moved(
        self,
        key: Key,
        *,
        bytes_done: int | None = None,
        bytes_total: int | None = None,
        file_index: int | None = None,
        files_total: int | None = None,
        message: str | None = None,
    ) -> None:
        """Work moved. Waits for the next report: bytes are not news."""
        with self._lock:
            operation = self._get(key)
            if operation.stage is not Stage.WORKING:
                return
            given = {
                name: value
                for name, value in (
                    ("bytes_done", bytes_done),
                    ("bytes_total", bytes_total),
                    ("file_index", file_index),
                    ("files_total", files_total),
                    ("message", message),
                )
                if value is not None
            }
            self._operations[key] = replace(operation, progress=operation.progress + 1, **given)  # type: ignore[arg-type]  # mixed values, named above

    def start_move(self, key: Key, wait_s: float) -> StartMove:
        """Whether an earlier process under the same key is in the way. One that is ending is waited for."""
        with self._lock:
            self._lock.wait_for(lambda: self._start_move(key) is not StartMove.WAIT, wait_s)
            return self._start_move(key)

    def attach(self, running: Running, group: Endable) -> bool:
        """The start gate: take a process into the table. False = its operation was doomed, it must not run."""
        with self._locked():
            operation = self._get(running.operation_key)
            if operation.stage is not Stage.WORKING:
                return False
            self._processes[running.process_instance] = _Live(running, group)
            self._put(
                replace(
                    operation,
                    process_instance=running.process_instance,
                    address=running.address,
                    process_secret=running.secret,
                )
            )
            return True

    def become_ready(self, key: Key, identity: str) -> bool:
        """LoadModel succeeded. False = the decision to end came first; READY is then never reported."""
        with self._locked():
            before = self._get(key)
            live = self._processes.get(before.process_instance or "")
            lives = live is not None and not live.group.has_exited()
            after = rules.ready(before, process_lives=lives, identity=identity)
            if after is before or live is None:
                return False
            self._put(after)
            live.running = replace(live.running, ready=True)
            return True

    def fail(self, key: Key, error: OperationError) -> None:
        """The work failed. Reported once nothing of it runs any more, never before."""
        with self._locked():
            self._doom(key, error)

    def thread_done(self, key: Key, work: Work) -> None:
        """The operation's thread does nothing more."""
        with self._locked():
            if self._works.get(key) is work:
                del self._works[key]
            self._settle(key)
            self._lock.notify_all()

    # What processes, timers, answers and stops say

    def process_gone(self, instance: str) -> None:
        """The whole group of this process has ended."""
        with self._locked():
            live = self._processes.pop(instance, None)
            if live is not None:
                self._settle(live.running.operation_key)
                self._lock.notify_all()
                self._after.append(self._changed)

    def watch(self) -> None:
        """Doom what nobody renewed or what passed its deadline, and end again what is still being ended."""
        with self._locked():
            for live in self._processes.values():
                if live.running.ending:
                    self._after.append(live.group.end_soon)

    def apply(self, answers: tuple[OperationAnswer, ...], sent_at: float) -> None:
        """Take the rows' answers to a report that was sent at ``sent_at``."""
        with self._locked():
            for answer in answers:
                key = (answer.job_id, answer.op_generation)
                if (operation := self._operations.get(key)) is not None:
                    after = rules.answered(operation, answer.answer, sent_at=sent_at)
                    self._take_end(operation, after)

    def stop(self, request: StopRequest) -> Stopping:
        """Decide an exact stop and begin it."""
        with self._locked():
            key = (request.job_id, request.op_generation)
            operation = self._find(key)
            live = self._named(request)
            plan = rules.stop_plan(request, operation, live.running if live else None)
            if plan.move is StopMove.BURY:
                self._put(replace(operation or Operation(job_id=key[0], op_generation=key[1]), stage=Stage.GONE))
                if (work := self._works.get(key)) is not None:
                    self._after.append(work.stop)
            elif plan.move is StopMove.END:
                self._doom(key, OperationError(cause=Cause.CANCELLED, message="stopped by request"))
                if live is not None:
                    self._end(live)
            instance = live.running.process_instance if live else None
            return Stopping(plan.outcome, key, instance, must_end=plan.move is StopMove.END)

    def end_process(self, instance: str, error: OperationError, grace_s: float | None = None) -> bool:
        """End one process whatever its operation is. False = it does not run here.

        ``grace_s`` is the time between TERM and KILL; None means the usual one.
        """
        with self._locked():
            live = self._processes.get(instance)
            if live is None:
                return False
            self._end(live, grace_s)
            self._doom(live.running.operation_key, error)
            return True

    def wait_ended(self, key: Key, instance: str | None, timeout_s: float) -> bool:
        """Whether the operation and the process have ended within the limit."""
        with self._lock:
            return self._lock.wait_for(lambda: self._has_ended(key, instance), timeout_s)

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether no operation works and no process is left within the limit."""
        with self._lock:
            return self._lock.wait_for(lambda: not self._processes and not self._works, timeout_s)

    def close(self) -> None:
        """The agent ends: take nothing new, doom everything."""
        error = OperationError(cause=Cause.WORKER_RESTARTED, message="the worker is shutting down")
        with self._locked():
            self._open = False
            for key in list(self._operations):
                self._doom(key, error)
            for live in self._processes.values():
                live.running = replace(live.running, ending=True)

    # What others read

    def snapshot(self) -> tuple[tuple[OperationReport, ...], tuple[ProcessReport, ...]]:
        """Everything a full report names."""
        with self._locked():
            reports = (rules.operation_report(operation) for operation in self._operations.values())
            processes = tuple(
                rules.process_report(live.running)
                for live in self._processes.values()
                if not self._get(live.running.operation_key).anonymous
            )
            return tuple(report for report in reports if report is not None), processes

    def incomplete(self) -> bool:
        """Whether an operation is under way, so that reports follow each other quickly."""
        with self._lock:
            return any(not operation.anonymous for operation in self._operations.values())

    def serving(self) -> list[Running]:
        """The processes that frontends may call."""
        with self._lock:
            return [live.running for live in self._processes.values() if live.running.ready and not live.running.ending]

    def keeps_process(self, key: Key) -> bool:
        """Whether the operation's thread must leave its process alone."""
        with self._lock:
            return self._get(key).stage in (Stage.READY, Stage.COMPLETE)

    def operation(self, key: Key) -> Operation | None:
        """The operation as it is now."""
        with self._lock:
            return self._find(key)

    # Under the lock

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock, apply the watchdog first, and act on what was decided once the lock is released."""
        self._lock.acquire()
        try:
            self._after: list[Callable[[], None]] = []
            now = self._clock()
            for operation in list(self._operations.values()):
                self._take_end(operation, rules.watched(operation, now=now, kill_ttl_s=self._kill_ttl_s))
            yield
        finally:
            after = self._after
            self._lock.release()
            for action in after:
                try:
                    action()
                except Exception:  # the others must still happen
                    log.exception("an action after a decision failed")

    def _find(self, key: Key) -> Operation | None:
        return self._operations.get(key) or self._tombstones.get(key)

    def _get(self, key: Key) -> Operation:
        return self._operations.get(key) or self._tombstones[key]

    def _start_move(self, key: Key) -> StartMove:
        operation = self._get(key)
        if operation.stage is not Stage.WORKING:
            return StartMove.REFUSE
        return rules.start_move(operation, [live.running for live in self._processes.values()])

    def _put(self, operation: Operation) -> None:
        before = self._find(operation.key)
        if operation.stage in rules.TOMBSTONES:
            self._operations.pop(operation.key, None)
            self._tombstones[operation.key] = operation
        else:
            self._operations[operation.key] = operation
        if before is None or (before.stage, before.phase) != (operation.stage, operation.phase):
            self._after.append(self._changed)
            self._lock.notify_all()

    def _doom(self, key: Key, error: OperationError) -> None:
        operation = self._get(key)
        self._take_end(operation, rules.doomed(operation, error))

    def _take_end(self, before: Operation, after: Operation) -> None:
        """Store a move that may be the decision to end, and begin the end if it is."""
        if after is before:
            return
        self._put(after)
        if after.stage in (Stage.ENDING, Stage.GONE) and (work := self._works.get(after.key)) is not None:
            self._after.append(work.stop)
        if after.stage is Stage.ENDING:
            live = self._processes.get(after.process_instance or "")
            if live is not None:
                self._end(live)
            self._settle(after.key)

    def _end(self, live: _Live, grace_s: float | None = None) -> None:
        """Begin to end a group, and say at once that it serves no more; the watchdog asks again until it is gone."""
        if not live.running.ending:
            live.running = replace(live.running, ending=True)
            self._after += [self._changed, partial(live.group.end_soon, grace_s)]

    def _settle(self, key: Key) -> None:
        operation = self._find(key)
        if operation is not None:
            lives = (operation.process_instance or "") in self._processes
            works = key in self._works
            self._put(rules.settled(operation, thread_works=works, process_lives=lives, now=self._clock()))

    def _named(self, request: StopRequest) -> _Live | None:
        if request.process_instance is not None:
            return self._processes.get(request.process_instance)
        key = (request.job_id, request.op_generation)
        return next((live for live in self._processes.values() if live.running.operation_key == key), None)

    def _has_ended(self, key: Key, instance: str | None) -> bool:
        operation = self._find(key)
        working = operation is not None and operation.stage in (Stage.WORKING, Stage.READY, Stage.ENDING)
        return not working and instance not in self._processes
