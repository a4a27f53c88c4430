"""Which rules of the job protocol a history breaks. One function for each rule; none knows where the history is from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from localai.jobs.kinds import KINDS, MODEL_LOAD, REPLICA_CLEANUP
from localai.jobs.ports import EventRow
from tests.simulator.history import History, JobFacts, ProcessFacts

TERMINAL = ("succeeded", "failed", "cancelled")
MAX_ADOPTIONS = 3


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, by name, with what broke it."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


Rule = Callable[[History], Iterator[str]]


def check(history: History, rules: Iterable[Rule] | None = None) -> list[Violation]:
    """Every broken rule of a history."""
    return [Violation(rule.__name__, text) for rule in rules or RULES for text in rule(history)]


def assert_clean(history: History) -> None:
    """Raise AssertionError with every violation."""
    found = check(history)
    assert not found, "\n".join(map(str, found))


def i1_one_live_attempt(history: History) -> Iterator[str]:
    """One live attempt for each kind, subject and slot; generations of a subject are drawn once."""
    drawn: dict[tuple[str, str], set[int]] = defaultdict(set)
    for job in _in_order(history):
        generations = {event.generation for event in history.events_of(job.id)} | {job.generation}
        seen = drawn[_counter(job)]
        if seen & generations:
            yield f"{_name(job)}: generations {seen & generations} were used before"
        seen |= generations
    for attempts in _by(history, lambda job: (job.kind, job.subject, job.slot)):
        for one, next_one in pairwise(attempts):
            if one.finished_at is None or one.finished_at > next_one.created_at:
                yield f"{_name(next_one)} began while {_name(one)} was live"


def i1_one_process_for_each_slot(history: History) -> Iterator[str]:
    """A node runs at most one process for one (model, slot)."""
    groups: dict[tuple[str, str, int], list[ProcessFacts]] = defaultdict(list)
    for process in history.processes:
        groups[(process.node_id, process.model, process.slot)].append(process)
    for same in groups.values():
        for one, other in pairwise(sorted(same, key=lambda process: process.started)):
            if one.ended is None or one.ended > other.started:
                yield f"{other.instance} of {other.model}#{other.slot} started while {one.instance} ran"


def i2_no_write_of_an_old_generation(history: History) -> Iterator[str]:
    """Each move was made by who held the row at that moment, and about the operation that was placed."""
    for write in history.stale_writes:
        yield f"{write.job_id}: {write.move} by {write.by} at {_t(write.at)}, who does not hold the row"
    for job in history.jobs.values():
        generation, owner = 0, None
        placed: EventRow | None = None
        for event in history.events_of(job.id):
            name, by = event.event, (event.detail or {}).get("by")
            if event.generation < generation:
                yield f"{_name(job)}: {name} by {event.actor} under {event.generation} after {generation}"
            if name in ("requeued", "adopted") and event.generation <= generation:
                yield f"{_name(job)}: {name} without a new generation"
            generation = max(generation, event.generation)
            if name in ("taken", "adopted"):
                owner = event.actor
            elif name == "requeued":
                owner = None
            elif (_by_owner(event) or by == "Fail") and event.actor != owner:
                yield f"{_name(job)}: {name} by {event.actor}, owned by {owner}"
            if name == "placed":
                placed = event
            elif placed is not None and event.op_generation != placed.op_generation:
                yield f"{_name(job)}: {name} of operation {event.op_generation}, placed as {placed.op_generation}"
            elif name in ("claimed", "missing") or name.startswith("operation_"):
                names = (event.op_generation, f"node:{placed.node_id}") if placed else (None, None)
                if (event.op_generation, event.actor) != names:
                    yield f"{_name(job)}: {name} of {event.op_generation} by {event.actor}, placed as {names}"


def i3_ready_is_not_killed(history: History) -> Iterator[str]:
    """A process that is READY is ended by its agent only for a doomed row or a cleanup job that names it."""
    for process in history.processes:
        if process.ready is None or process.decided is None or process.decided < process.ready:
            continue
        if not _may_stop(history, process.job_id, process.instance, process.decided):
            yield f"READY {process.instance} of {process.model} was ended at {_t(process.decided)}, its row lived"


def i3_ready_after_the_decision_to_kill(history: History) -> Iterator[str]:
    """After the decision to end it, a process is never READY."""
    for process in history.processes:
        if process.ready_though_ending:
            yield f"{process.instance} became READY at {_t(process.ready)}, to be killed since {_t(process.decided)}"


def stops_come_from_rows(history: History) -> Iterator[str]:
    """Whoever sends a stop has read a committed doomed row, or a cleanup job of that instance."""
    for stop in history.stops:
        if not _may_stop(history, stop.job_id, stop.instance, stop.at):
            yield f"a stop of {stop.job_id} was sent at {_t(stop.at)}, its row was not doomed"


def i4_doomed_is_never_routable(history: History) -> Iterator[str]:
    """Only a load that succeeded, and nothing that was cancelled or failed, is ever routed to."""
    for routed in history.routed:
        job = history.jobs.get(routed.job_id)
        if job is not None and job.state != "succeeded":
            yield f"{_name(job)} is {job.state} and was routed to at {_t(routed.at)}"
    for job in history.jobs.values():
        names = [event.event for event in history.events_of(job.id)]
        if "succeeded" in names and ("cancelled" in names or "failed" in names):
            yield f"{_name(job)} ended both ways: {names}"


def i5_holds_end_by_their_bound(history: History) -> Iterator[str]:
    """No hold is longer than the stop window, one with nothing left to stop no longer than the report window."""
    slack = history.bounds.clock_s
    for job in history.jobs.values():
        if not job.doomed or job.hold_until is None or job.finished_at is None:
            continue
        held_s = (job.hold_until - job.finished_at).total_seconds()
        confirmed = _confirmed_at(history, job)
        at_once = confirmed is not None and confirmed <= job.finished_at + timedelta(seconds=slack)
        bound_s = history.bounds.report_s if at_once else history.bounds.stop_s
        if held_s > bound_s + slack:
            yield f"{_name(job)} holds for {held_s:.1f} s, the bound is {bound_s:g} s"


def i5_holds_are_obeyed(history: History) -> Iterator[str]:
    """No attempt begins before the hold of an earlier one of its subject is over."""
    for attempts in _by(history, lambda job: (job.kind, job.subject)):
        held: JobFacts | None = None
        for job in attempts:
            if held is not None and held.hold_until is not None and job.created_at < held.hold_until:
                same = job.kind == MODEL_LOAD or job.slot == held.slot
                if same:
                    yield f"{_name(job)} began at {_t(job.created_at)}, {_name(held)} held until {_t(held.hold_until)}"
            if job.hold_until is not None and (held is None or job.hold_until > (held.hold_until or job.hold_until)):
                held = job


def ended_is_a_fact(history: History) -> Iterator[str]:
    """Once a stop is confirmed nothing of the operation runs, and nothing of it starts later."""
    for job in history.jobs.values():
        confirmed = _confirmed_at(history, job)
        if not job.doomed or confirmed is None:
            continue
        for process in history.processes_of(job):
            if process.ended is None or process.ended > confirmed:
                yield f"{_name(job)} was confirmed at {_t(confirmed)}, {_life(process)}"


def i6_waiters_read_one_cause(history: History) -> Iterator[str]:
    """Everybody who waited for an attempt was told what its row says."""
    for read in history.causes:
        job = history.jobs.get(read.job_id)
        if job is not None and job.error_cause != read.cause:
            yield f"a waiter of {_name(job)} read {read.cause}, its cause is {job.error_cause}"


def what_a_cancel_is_told_is_a_fact(history: History) -> Iterator[str]:
    """Whoever cancels a job is answered when it has ended; that it is stopped only once its end is proven."""
    for told in history.cancels:
        job = history.jobs[told.job_id]
        if job.finished_at is None or job.finished_at > told.at:
            yield f"{_name(job)} was said to be {told.state} at {_t(told.at)}, it ended at {_t(job.finished_at)}"
        elif told.state in ("stopped", "stopping") and not job.doomed:
            yield f"{_name(job)} was said to be {told.state} at {_t(told.at)}, it is {job.state}"
        elif told.state == "stopped" and ((proven := _confirmed_at(history, job)) is None or proven > told.at):
            yield f"{_name(job)} was said to be stopped at {_t(told.at)}, that was proven at {_t(proven)}"


def a_cancel_ends_what_only_serves(history: History) -> Iterator[str]:
    """No job that serves another kind outlives the cancel of the last live job of that kind about its subject."""
    for job in history.jobs.values():
        ended = job.finished_at
        if job.state != "cancelled" or ended is None:
            continue
        live = [other for other in history.jobs.values() if other.subject == job.subject and _live_at(other, ended)]
        if not any(other.kind == job.kind for other in live):
            for other in live:
                if KINDS[other.kind].serves == job.kind:
                    yield f"{_name(other)} went on when {_name(job)} was cancelled at {_t(ended)}"


def nothing_begins_to_serve_what_has_ended(history: History) -> Iterator[str]:
    """No job that only serves another one begins after that has ended."""
    for job in history.jobs.values():
        parent = history.jobs.get(job.parent_id or "")
        if parent is None or KINDS[job.kind].serves != parent.kind or parent.finished_at is None:
            continue
        if job.created_at > parent.finished_at:
            yield f"{_name(job)} began for {_name(parent)}, which had ended at {_t(parent.finished_at)}"


def only_what_may_be_cancelled_is(history: History) -> Iterator[str]:
    """What must be done however often it takes is never cancelled."""
    for job in history.jobs.values():
        if job.state == "cancelled" and KINDS[job.kind].not_cancelled:
            yield f"{_name(job)} was cancelled: {KINDS[job.kind].not_cancelled}"


def i9_only_verified_files_are_used(history: History) -> Iterator[str]:
    """No process starts on a file whose digest was not the promised one."""
    for process in history.processes:
        if not process.verified:
            yield f"{process.instance} of {process.model} started on bytes that nobody verified"


def i10_one_terminal_event(history: History) -> Iterator[str]:
    """A terminal job has exactly one terminal event, a live one none; after it only its stop moves."""
    for job in history.jobs.values():
        events = history.events_of(job.id)
        if not events:
            continue
        ends = [event.event for event in events if event.event in TERMINAL]
        if ends != ([job.state] if job.state in TERMINAL else []):
            yield f"{_name(job)} is {job.state} and has the terminal events {ends}"
        after = [event.event for event in events[_index_of_end(events) + 1 :]]
        if any(name not in ("stop_sent", "stop_confirmed", *TERMINAL) for name in after):
            yield f"{_name(job)} moved after its end: {after}"


def i11_not_ready_is_dead_within_the_kill_ttl(history: History) -> Iterator[str]:
    """A process that is not READY dies within kill TTL and grace of the end of its row; its agent may be away."""
    for job, process, deadline in _outlived(history):
        if process.ended is None or process.ended > deadline:
            yield f"{_name(job)} ended at {_t(job.finished_at)}, {_life(process)}, to be dead by {_t(deadline)}"


def i11_nothing_starts_late(history: History) -> Iterator[str]:
    """A grant is void after the kill TTL: nothing of a row that ended earlier than that starts."""
    for job in history.jobs.values():
        if not job.doomed or job.finished_at is None:
            continue
        last = job.finished_at + timedelta(seconds=history.bounds.kill_ttl_s)
        for process in history.processes_of(job):
            if process.started > last:
                yield f"{_name(job)} ended at {_t(job.finished_at)}, {_life(process)}"


def work_is_dead_before_the_hold_ends(history: History) -> Iterator[str]:
    """While its agent runs, a process that is not READY does not live when another attempt may begin."""
    for job, process, _ in _outlived(history):
        hold = job.hold_until
        if hold is None or job.finished_at is None or (process.ended is not None and process.ended <= hold):
            continue
        if process.started < hold and not history.was_away(process.node_id, job.finished_at, hold):
            yield f"{_name(job)} held until {_t(hold)}, {_life(process)}"


def a_finished_load_is_of_the_life_that_is_registered(history: History) -> Iterator[str]:
    """A load is finished only while the incarnation that claimed it is the node's (C8)."""
    for job, end in _finished_loads(history):
        claimed = next((event for event in history.events_of(job.id) if event.event == "claimed"), None)
        lives = [one for one in history.registered if one.node_id == job.node_id and one.at <= end.at]
        if claimed is None or not lives:
            continue
        claimer, current = (claimed.detail or {}).get("incarnation"), max(life.incarnation for life in lives)
        if claimer != current:
            yield f"{_name(job)} was finished for incarnation {claimer}, {current} is registered"


def a_finished_load_is_of_the_revision_that_holds(history: History) -> Iterator[str]:
    """A load of another revision is never committed as loaded (C21)."""
    for job, end in _finished_loads(history):
        holds = [one.revision for one in history.revised if one.model == job.subject and one.at <= end.at]
        if holds and holds[-1] != job.revision:
            yield f"{_name(job)} of {job.revision} was finished under {holds[-1]}"


def a_pending_stop_keeps_its_slot(history: History) -> Iterator[str]:
    """Nothing is placed on a slot whose stop is not proven, also after the hold (C14)."""
    for attempts in _by(history, lambda job: (job.kind, job.subject, job.slot)):
        for index, job in enumerate(attempts):
            placed = next((event.at for event in history.events_of(job.id) if event.event == "placed"), None)
            for earlier in attempts[:index] if placed else ():
                if not earlier.doomed or earlier.op_generation is None:
                    continue
                proven = _confirmed_at(history, earlier)
                if proven is None or (placed is not None and proven > placed):
                    yield f"{_name(job)} was placed at {_t(placed)}, the stop of {_name(earlier)} was not proven"


def i12_answers_are_of_the_model_asked_for(history: History) -> Iterator[str]:
    """No answer comes from another model."""
    for answer in history.answers:
        if answer.asked != answer.by:
            yield f"asked for {answer.asked}, answered by {answer.by} at {_t(answer.at)}"


def a_valid_lease_is_not_taken_away(history: History) -> Iterator[str]:
    """No attempt is ended or adopted by another while its owner's lease is valid."""
    for taken in history.taken_away:
        if taken.lease_expires_at is None or taken.lease_expires_at > taken.at:
            yield f"{taken.job_id} was taken away at {_t(taken.at)}, its lease ran until {_t(taken.lease_expires_at)}"


def adoption_needs_proof(history: History) -> Iterator[str]:
    """A load is adopted only where its agent was heard of lately, or nothing was sent; at most three times after a loss."""
    fresh_s = history.bounds.adopt_fresh_s
    for one in history.adopted:
        late = one.heard_at is None or fresh_s is None or one.at - one.heard_at >= timedelta(seconds=fresh_s)
        if fresh_s is None or (one.sent and late):
            yield f"{one.job_id} was adopted at {_t(one.at)}, its agent was last heard of: {_t(one.heard_at)}"
    for job in history.jobs.values():
        moves = [event.event for event in history.events_of(job.id) if event.event in ("adopted", "released")]
        lost = [move for before, move in pairwise(("", *moves)) if move == "adopted" and before != "released"]
        if len(lost) > MAX_ADOPTIONS:
            yield f"{_name(job)} was adopted {len(lost)} times after the loss of its owner"


def quiet_is_reached(history: History) -> Iterator[str]:
    """After the faults no live attempt, no hold, no pending stop, no process without a loaded row."""
    yield from history.not_quiet or ()


RULES: tuple[Rule, ...] = (
    i1_one_live_attempt,
    i1_one_process_for_each_slot,
    i2_no_write_of_an_old_generation,
    i3_ready_is_not_killed,
    i3_ready_after_the_decision_to_kill,
    stops_come_from_rows,
    i4_doomed_is_never_routable,
    i5_holds_end_by_their_bound,
    i5_holds_are_obeyed,
    ended_is_a_fact,
    i6_waiters_read_one_cause,
    what_a_cancel_is_told_is_a_fact,
    a_cancel_ends_what_only_serves,
    nothing_begins_to_serve_what_has_ended,
    only_what_may_be_cancelled_is,
    i9_only_verified_files_are_used,
    i10_one_terminal_event,
    i11_not_ready_is_dead_within_the_kill_ttl,
    i11_nothing_starts_late,
    work_is_dead_before_the_hold_ends,
    a_finished_load_is_of_the_life_that_is_registered,
    a_finished_load_is_of_the_revision_that_holds,
    a_pending_stop_keeps_its_slot,
    i12_answers_are_of_the_model_asked_for,
    a_valid_lease_is_not_taken_away,
    adoption_needs_proof,
    quiet_is_reached,
)


# What several rules ask


def _in_order(history: History) -> list[JobFacts]:
    return sorted(history.jobs.values(), key=lambda job: (job.created_at, job.generation))


def _by(history: History, key: Callable[[JobFacts], object]) -> list[list[JobFacts]]:
    groups: dict[object, list[JobFacts]] = defaultdict(list)
    for job in _in_order(history):
        groups[key(job)].append(job)
    return list(groups.values())


def _counter(job: JobFacts) -> tuple[str, str]:
    """Loads, installs and unloads of a model draw from one counter."""
    return ("process" if job.kind == REPLICA_CLEANUP else "model", job.subject)


def _by_owner(event: EventRow) -> bool:
    finished = event.event == "succeeded" and not (event.actor or "").startswith("node:")
    return finished or event.event in ("placed", "resent", "released")


def _may_stop(history: History, job_id: str, instance: str | None, at: datetime) -> bool:
    job = history.jobs.get(job_id)
    if job is not None and job.doomed and job.finished_at is not None and job.finished_at <= at:
        return True
    return instance is not None and any(
        other.kind == REPLICA_CLEANUP and other.subject == instance and other.created_at <= at
        for other in history.jobs.values()
    )


def _confirmed_at(history: History, job: JobFacts) -> datetime | None:
    """When it was written down that nothing of a doomed job runs."""
    for event in history.events_of(job.id):
        at_once = event.event in TERMINAL and (event.detail or {}).get("stop_state") == "confirmed"
        if at_once or event.event == "stop_confirmed":
            return event.at
    return None


def _live_at(job: JobFacts, at: datetime) -> bool:
    return job.created_at < at and (job.finished_at is None or job.finished_at > at)


def _index_of_end(events: list[EventRow]) -> int:
    return next((index for index, event in enumerate(events) if event.event in TERMINAL), len(events))


def _outlived(history: History) -> Iterator[tuple[JobFacts, ProcessFacts, datetime]]:
    """Processes that lived on after their row was doomed and were not READY in time, with that time."""
    bounds = history.bounds
    for job in history.jobs.values():
        for process in history.processes_of(job) if job.doomed and job.finished_at is not None else ():
            assert job.finished_at is not None
            if process.ended is not None and process.ended <= job.finished_at:
                continue
            last = job.finished_at + timedelta(seconds=bounds.kill_ttl_s + bounds.kill_slack_s)
            deadline = history.unless_away(process.node_id, last, bounds.kill_slack_s)
            if process.ready is None or process.ready > deadline:
                yield job, process, deadline


def _finished_loads(history: History) -> Iterator[tuple[JobFacts, EventRow]]:
    for job in history.jobs.values():
        if job.kind == MODEL_LOAD:
            for event in history.events_of(job.id):
                if event.event == "succeeded":
                    yield job, event


def _name(job: JobFacts) -> str:
    return f"{job.kind} {job.subject}#{job.slot} {job.id[:8]}"


def _life(process: ProcessFacts) -> str:
    ready = f", READY {_t(process.ready)}" if process.ready else ""
    return f"process {process.instance[:8]} started {_t(process.started)}{ready}, ended {_t(process.ended)}"


def _t(at: datetime | None) -> str:
    return "never" if at is None else at.strftime("%H:%M:%S.%f")[:-3]
