"""The rules of the protocol taken out, one by one. For each the checker must turn red.

Some guards hide each other, so some mutants take out two; `docs/reference/simulator.md` names those that are green alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from localai.errors import NotFound, StorageUnavailable
from localai.ids import JobId, NodeId
from localai.jobs import cancels as cancel_service
from localai.jobs import rules as job_rules
from localai.jobs.cancel_rules import CancelState, end_of
from localai.jobs.effect_rules import adopt
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Event,
    Fail,
    Finish,
    FinishWork,
    Lapse,
    Place,
    Progress,
    Relocate,
    Renew,
    Requeue,
)
from localai.jobs.guard_rules import (
    adoptions_left,
    heard_of,
    lease_lapsed,
    lease_valid,
    owned,
    revision_unchanged,
    same_incarnation,
    unclaimed,
)
from localai.jobs.job import Job, State, Windows
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.leases import LeaseBook
from localai.jobs.operation_rules import Answer, Order, StopOutcome, StopRequest, process_key
from localai.jobs.ports import Intake, Moved, NewJob
from localai.loads.load_steps import LoadSteps
from localai.loads.ports import Quarantined
from tests.simulator.agents import AgentLife, HttpCalls, VirtualOperations
from tests.simulator.checker import (
    Rule,
    a_cancel_ends_what_only_serves,
    a_finished_load_is_of_the_life_that_is_registered,
    a_finished_load_is_of_the_revision_that_holds,
    a_pending_stop_keeps_its_slot,
    a_valid_lease_is_not_taken_away,
    adoption_needs_proof,
    check,
    ended_is_a_fact,
    i1_one_live_attempt,
    i1_one_process_for_each_slot,
    i2_no_write_of_an_old_generation,
    i3_ready_after_the_decision_to_kill,
    i3_ready_is_not_killed,
    i4_doomed_is_never_routable,
    i5_holds_are_obeyed,
    i5_holds_end_by_their_bound,
    i6_waiters_read_one_cause,
    i9_only_verified_files_are_used,
    i10_one_terminal_event,
    i11_not_ready_is_dead_within_the_kill_ttl,
    i11_nothing_starts_late,
    i12_answers_are_of_the_model_asked_for,
    nothing_begins_to_serve_what_has_ended,
    only_what_may_be_cancelled_is,
    quiet_is_reached,
    stops_come_from_rows,
    what_a_cancel_is_told_is_a_fact,
    work_is_dead_before_the_hold_ends,
)
from tests.simulator.clients import Client
from tests.simulator.machine import Group, Machine
from tests.simulator.memory_cancels import MemoryCancels
from tests.simulator.memory_jobs import MemoryJobs, insert
from tests.simulator.memory_loads import MemoryLoads
from tests.simulator.memory_operations import MemoryOperations
from tests.simulator.memory_sweeps import MemorySweeps
from tests.simulator.network import Weather
from tests.simulator.owners import ControlProcess
from tests.simulator.schedules import ALL, Profile, without
from tests.simulator.tables import Tables
from tests.simulator.world import Parts, World, errors_of_services
from worker_agent.frontends import ClaimRefused, Registered, Reply
from worker_agent.processes import rules as agent_rules
from worker_agent.processes.rules import Operation, Stage, StopMove, StopPlan

Patch = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One rule taken out, and which rules of the checker must see it."""

    name: str
    #: What section 10 of the protocol, or its invariants, call it.
    protects: str
    seen_by: tuple[Rule, ...]
    parts: Parts = Parts()
    patches: tuple[Patch, ...] = ()
    profile: Profile = ALL
    #: A seed that was seen to turn red; the search begins there.
    seed: int = 0

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for patch in self.patches:
                stack.enter_context(patch())
            yield


@dataclass(frozen=True, slots=True)
class Red:
    seed: int
    schedules: int
    text: str


def search(mutant: Mutant, schedules: int) -> Red | None:
    """The first schedule in which the checker sees the mutant."""
    with mutant.planted(), errors_of_services():
        for count in range(schedules):
            seed = mutant.seed + count
            history = World(seed, mutant.profile, mutant.parts).run()
            found = check(history, mutant.seen_by)
            if found:
                return Red(seed, count + 1, str(found[0]))
    return None


# Guards of the rows


def _changed_move(event: type[Event], **changes: Any) -> Patch:
    def patch() -> Any:
        return mock.patch.dict(job_rules._BY_EVENT, {event: replace(job_rules._BY_EVENT[event], **changes)})

    return patch


def _without(event: type[Event], *guards: Any) -> Patch:
    kept = tuple(guard for guard in job_rules._BY_EVENT[event].guards if guard not in guards)
    return _changed_move(event, guards=kept)


class _ForgetfulLoads(MemoryLoads):
    """Attaches to nothing."""

    def request(self, model: str, revision: str) -> tuple[Intake, Job]:
        new = NewJob(kind=MODEL_LOAD, subject=model, revision=revision)
        return Intake.CREATED, insert(self._tables, self._kinds, new)


class _ImpatientLoads(MemoryLoads):
    """Knows no hold."""

    def request(self, model: str, revision: str) -> tuple[Intake, Job] | Quarantined:
        answer = super().request(model, revision)
        if isinstance(answer, Quarantined) or answer[0] is not Intake.HELD:
            return answer
        slot = next(number for number in range(1000) if (model, number) not in self._tables.replicas)
        new = NewJob(kind=MODEL_LOAD, subject=model, revision=revision, slot=slot)
        return Intake.CREATED, insert(self._tables, self._kinds, new)


class _KindJobs(MemoryJobs):
    """Begins what serves whatever became of its parent."""

    def request(self, new: NewJob) -> tuple[Intake, Job]:
        outcome, job = super().request(new)
        if outcome is not Intake.ORPHAN:
            return outcome, job
        return Intake.CREATED, insert(self._tables, self._kinds, new)


class _EagerCancels(MemoryCancels):
    """Ends again what was ended."""

    def may_end(self, job: Job) -> bool:
        return job.state != State.SUCCEEDED


class _LonelyCancels(MemoryCancels):
    """Ends the job alone."""

    def servants(self, job: Job) -> list[Job]:
        return []


class _HastyTables(Tables):
    """The reservation ends with the attempt, and not with the proof."""

    def doom_replica(self, job_id: JobId) -> None:
        self.free_replica(job_id)


class _GreedySweeps(MemorySweeps):
    """Takes every running job for lapsed."""

    def _lapsed(self) -> list[Job]:
        return [job for job in self._tables.opened() if job.state == State.RUNNING]


class _LazySweeps(MemorySweeps):
    """Looks for no lapsed lease."""

    def lapse(self, limit: int) -> Sequence[Job]:
        return []


class _ShortSweeps(MemorySweeps):
    """Sends no stop once the hold is over."""

    def due_stops(self, limit: int) -> Sequence[Job]:
        now = self._tables.now()
        over = [job for job in self._tables.opened() if job.hold_until is not None and job.hold_until <= now]
        for job in over:
            self._tables.open.pop(job.id)
        sent = super().due_stops(limit)
        for job in over:
            self._tables.open[job.id] = None
        return sent


class _CarelessOperations(MemoryOperations):
    """A registration ends nothing."""

    def new_incarnation(self, node_id: NodeId, incarnation: int) -> Sequence[Moved]:
        return []


class _Believing(LeaseBook):
    """Believes in every lease it ever had."""

    def valid(self, job_id: JobId, generation: int) -> bool:
        return True


class _BelievingControl(ControlProcess):
    leases_class = _Believing


# Owners that stop for what they believe


class _StoppingControl(ControlProcess):
    """Sends a stop when its own lease is over."""

    def _keep(self) -> None:
        while True:
            self.pass_time(self.world.renew_s)
            held = {job_id: lease.ends for job_id, lease in self.owner.leases._leases.items()}
            for job_id in [job_id for job_id, ends in held.items() if ends <= self.clock()]:
                self.owner.leases.drop(job_id, self.owner.leases.generation_of(job_id) or 0)
                self._stop_what_it_believes_in(job_id)
            try:
                self.owner.renew()
            except StorageUnavailable:
                continue

    def _stop_what_it_believes_in(self, job_id: JobId) -> None:
        job = self.world.tables.jobs[job_id]
        if job.node_id is not None and job.op_generation is not None:
            self.stops.send(job.node_id, _stop_of(job))


class _PanickingSteps(LoadSteps):
    """Takes a lost answer for a failure, and stops."""

    def _finish(self, job: Job) -> None:
        try:
            super()._finish(job)
        except StorageUnavailable:
            control: Any = self._owner
            control.panic(job)
            raise


class _PanickingControl(ControlProcess):
    steps_class = _PanickingSteps

    def __init__(self, world: Any, number: int, **clock: float) -> None:
        super().__init__(world, number, **clock)
        owner: Any = self.owner
        owner.panic = lambda job: self.stops.send(job.node_id, _stop_of(job))


def _stop_of(job: Job) -> StopRequest:
    return StopRequest(
        job_id=job.id,
        op_generation=job.op_generation or 0,
        process_key=process_key(job.subject, job.slot),
        address=job.address,
        process_instance=job.process_instance,
    )


# Agents


class _UngrantedCalls(HttpCalls):
    """Starts what a message names, whatever the row says."""

    def claim(self, registered: Registered, job_id: str, op_generation: int, *, seq: int) -> Reply:
        sent_at = self._agent.clock()
        try:
            return super().claim(registered, job_id, op_generation, seq=seq)
        except ClaimRefused:
            order = self._agent.world.tables.jobs[JobId(job_id)].args["order"]
            return Reply(200, Order.from_json(order).to_json(), sent_at)


class _UngrantedAgent(AgentLife):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.calls = _UngrantedCalls(self)


class _NamelessCalls(HttpCalls):
    """Registers without a word about the newest life."""

    def register(self, body: Mapping[str, Any]) -> Registered:
        return super().register({**body, "after": None})


class _NamelessAgent(AgentLife):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.calls = _NamelessCalls(self)


class _LateOperations(VirtualOperations):
    """Counts a renewal from the moment its answer is read."""

    def apply(self, answers: Any, sent_at: float) -> None:
        super().apply(answers, self._clock())


class _LateAgent(AgentLife):
    operations_class = _LateOperations


class _UnlistedOperations(VirtualOperations):
    """Has no entry for an operation before its claim is granted, as far as a report shows."""

    def snapshot(self) -> Any:
        operations, processes = super().snapshot()
        claiming = {key for key, operation in self._operations.items() if operation.stage is Stage.CLAIMING}
        return tuple(op for op in operations if (op.job_id, op.op_generation) not in claiming), processes


class _UnlistedAgent(AgentLife):
    operations_class = _UnlistedOperations


class _UngatedMachine(Machine):
    """A launcher runs as soon as it is forked."""

    def fork(self, life: Any, facts: Any) -> Group:
        group = super().fork(life, facts)
        self.release(group)
        return group


class _UngatedAgent(AgentLife):
    """Writes down a process once it knows its pid."""

    def write_down(self, instance: str) -> None:
        pass

    def start_is_written(self, group: Group) -> None:
        self.machine.journal.add(group.instance)


class _TrustingAgent(AgentLife):
    """Uses what arrived, whatever it is."""

    def arrived(self, staged: Any, *, right: bool) -> None:
        if not right:
            self.trusts = True

    trusts = False

    def verified(self, job_id: str) -> bool:
        return not self.trusts


def _agent_rule(name: str, make: Callable[[Any], Any]) -> Patch:
    return lambda: mock.patch.object(agent_rules, name, make(getattr(agent_rules, name)))


def _watched_ready_too(real: Any) -> Any:
    def watched(operation: Operation, *, now: float, kill_ttl_s: float) -> Operation:
        if operation.stage is not Stage.READY:
            return real(operation, now=now, kill_ttl_s=kill_ttl_s)
        after = real(replace(operation, stage=Stage.WORKING), now=now, kill_ttl_s=kill_ttl_s)
        return operation if after.stage is Stage.WORKING else after

    return watched


def _never_watched(real: Any) -> Any:
    return lambda operation, **_: operation


def _unaged(real: Any) -> Any:
    return lambda operation, **named: real(operation, **{**named, "sent_at": named["now"]})


def _unburied(real: Any) -> Any:
    def stop_plan(request: StopRequest, operation: Any, process: Any) -> StopPlan:
        if operation is not None and operation.stage is Stage.CLAIMING:
            return StopPlan(StopOutcome.ALREADY_GONE, StopMove.NOTHING)
        plan: StopPlan = real(request, operation, process)
        return plan

    return stop_plan


def _claiming_is_not_doomed(real: Any) -> Any:
    return lambda operation, error: operation if operation.stage is Stage.CLAIMING else real(operation, error)


def _ended_at_once(real: Any) -> Any:
    return lambda operation, *, thread_works, process_lives, now: real(
        operation, thread_works=False, process_lives=process_lives and operation.stage is not Stage.ENDING, now=now
    )


def _ready_after_the_decision(real: Any) -> Any:
    def ready(operation: Operation, *, process_lives: bool, identity: str) -> Operation:
        doomed = operation.stage is Stage.ENDING and process_lives
        return real(
            replace(operation, stage=Stage.WORKING) if doomed else operation,
            process_lives=process_lives,
            identity=identity,
        )

    return ready


def _stop_spares_ready(real: Any) -> Any:
    def answered(operation: Operation, answer: Answer, *, sent_at: float) -> Operation:
        spared = answer is Answer.STOP and operation.stage is Stage.READY
        return operation if spared else real(operation, answer, sent_at=sent_at)

    return answered


class _HardOfHearing(AgentLife):
    """Hears no stop of the node link."""

    def answer_stop(self, payload: Any) -> Any:
        raise NotFound("no such operation")


# Clients


class _LatestClient(Client):
    """Asks for the latest attempt of the model instead of the one it waits for."""

    def read_cause(self, services: Any, job_id: str) -> Any:
        status = services.loads.status(self.model)
        if status is None:
            raise NotFound("no attempt")
        return replace(services.loads.read(job_id), error_cause=status.error_cause, job_state=status.job_state)


class _RedialingClient(Client):
    """A connection belongs to an address."""

    def call(self, replica: Any, connections: dict[str, Any]) -> str | None:
        listener = self.world.listener(replica.address)
        return None if listener is None else str(listener.facts.model)


def _said_too_soon(job: Job) -> CancelState | None:
    state = end_of(job)
    return CancelState.STOPPED if state is CancelState.STOPPING else state


def _adopted_as_before(job: Job, event: Adopt, now: Any, windows: Windows) -> Job:
    return replace(adopt(job, event, now, windows), generation=job.generation)


def _renamed_by_adoption(job: Job, event: Adopt, now: Any, windows: Windows) -> Job:
    renamed = None if job.op_generation is None else event.new_generation
    return replace(adopt(job, event, now, windows), op_generation=renamed)


LONG_LOADS = without(ALL, load_s=(100.0, 160.0))
CUT_AGENTS = without(
    LONG_LOADS,
    crash=0.0,
    freeze=0.01,
    freezes_s=(80.0, 85.0, 120.0, 200.0),
    blows=("cut agent", "cut agent", "freeze agent", "kill control"),
    blows_most=6,
    trouble_s=(240.0, 400.0),
    nodes=(1,),
)
CANCELS = without(ALL, cancels=0.9)
LOST_COMMITS = without(
    ALL, crash=0.0, freeze=0.0, blows_most=0, weather=Weather(commit_lost=0.3, late=0.1), load_s=(2.0, 8.0)
)
EDITS = without(ALL, blows=("edit",), blows_most=10, load_s=(8.0, 30.0), models=(1,))
CROWDED = without(ALL, models=(3,), nodes=(1,), blows=("end process", "end process", "edit"), blows_most=10)
#: Owners that are away for longer than their leases while agents work on.
LOST_OWNERS = without(
    LONG_LOADS,
    adoption=1.0,
    crash=0.0,
    freezes_s=(40.0, 50.0, 60.0),
    blows=("kill control", "freeze control"),
    blows_most=8,
    controls=(3,),
    trouble_s=(240.0, 400.0),
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="a request attaches to nothing",
        protects="I1",
        seen_by=(i1_one_live_attempt, i1_one_process_for_each_slot),
        parts=Parts(loads=_ForgetfulLoads),
    ),
    Mutant(
        name="no generation and owner in the WHERE, and no local lease",
        protects="I2, C13",
        seen_by=(i2_no_write_of_an_old_generation,),
        parts=Parts(control=_BelievingControl),
        patches=tuple(
            _without(event, owned, lease_valid) for event in (Progress, Finish, FinishWork, Fail, Place, Renew)
        ),
        profile=without(ALL, fetched=0.0, crash=0.0, freeze=0.05, freeze_at="install: bytes", freezes_s=(40.0, 80.0)),
    ),
    Mutant(
        name="the watchdog kills READY",
        protects="I3",
        seen_by=(i3_ready_is_not_killed,),
        patches=(_agent_rule("watched", _watched_ready_too),),
        profile=without(CUT_AGENTS, load_s=(8.0, 30.0)),
        seed=16,
    ),
    Mutant(
        name="READY after the decision to kill",
        protects="I3, C11",
        seen_by=(i3_ready_after_the_decision_to_kill, i3_ready_is_not_killed),
        patches=(_agent_rule("ready", _ready_after_the_decision),),
        profile=without(
            ALL, crash=0.0, freeze=0.8, freeze_at="READY not asked", freezes_s=(100.0, 130.0), load_s=(2.0, 8.0)
        ),
    ),
    Mutant(
        name="finish without state and lease",
        protects="I4, C9",
        seen_by=(i4_doomed_is_never_routable, i10_one_terminal_event),
        patches=(
            lambda: mock.patch.dict(
                job_rules._BY_EVENT,
                {
                    Finish: replace(
                        job_rules._BY_EVENT[Finish],
                        sources=frozenset(State),
                        guards=tuple(g for g in job_rules._BY_EVENT[Finish].guards if g is not lease_valid),
                    )
                },
            ),
        ),
        profile=without(CANCELS, freeze=0.5, freeze_at="finish: before", freezes_s=(10.0, 30.0), load_s=(2.0, 8.0)),
        seed=28,
    ),
    Mutant(
        name="a hold that nobody obeys",
        protects="I5",
        seen_by=(i5_holds_are_obeyed,),
        parts=Parts(loads=_ImpatientLoads),
    ),
    Mutant(
        name="a repeated cancel is a new one",
        protects="I5, I10",
        seen_by=(i10_one_terminal_event, i5_holds_end_by_their_bound),
        parts=Parts(cancels=_EagerCancels),
        patches=(_changed_move(Cancel, sources=frozenset(State) - {State.SUCCEEDED}),),
        profile=CANCELS,
    ),
    Mutant(
        name="a cancel leaves what only serves the job",
        protects="cancels",
        seen_by=(a_cancel_ends_what_only_serves,),
        parts=Parts(cancels=_LonelyCancels),
        profile=without(CANCELS, fetched=0.0),
    ),
    Mutant(
        name="a fetch begins for a load that has ended",
        protects="cancels",
        seen_by=(nothing_begins_to_serve_what_has_ended,),
        parts=Parts(jobs=_KindJobs),
        profile=without(CANCELS, fetched=0.0),
    ),
    Mutant(
        name="a cancel says stopped before the proof",
        protects="cancels",
        seen_by=(what_a_cancel_is_told_is_a_fact,),
        patches=(lambda: mock.patch.object(cancel_service, "end_of", _said_too_soon),),
        profile=CANCELS,
    ),
    Mutant(
        name="any kind of job is cancelled",
        protects="cancels",
        seen_by=(only_what_may_be_cancelled_is,),
        patches=(lambda: mock.patch.object(cancel_service, "why_not", lambda job: None),),
        # Edits leave processes to clean up, whose jobs are the only ones here that no cancel ends.
        profile=without(CANCELS, blows=("edit",), blows_most=10, load_s=(2.0, 8.0, 30.0)),
    ),
    Mutant(
        name="a waiter reads the latest attempt",
        protects="I6",
        seen_by=(i6_waiters_read_one_cause,),
        parts=Parts(client=_LatestClient),
        profile=without(CANCELS, refusals=0.4),
        seed=145,
    ),
    Mutant(
        name="files are used before their digest matched",
        protects="I9",
        seen_by=(i9_only_verified_files_are_used,),
        parts=Parts(agent=_TrustingAgent),
        profile=without(ALL, corruption=0.3),
    ),
    Mutant(
        name="no watchdog",
        protects="I11",
        seen_by=(i11_not_ready_is_dead_within_the_kill_ttl, work_is_dead_before_the_hold_ends),
        patches=(_agent_rule("watched", _never_watched),),
        profile=without(CUT_AGENTS, load_s=(200.0, 300.0)),
        seed=37,
    ),
    Mutant(
        name="a connection belongs to an address",
        protects="I12, C22",
        seen_by=(i12_answers_are_of_the_model_asked_for,),
        parts=Parts(client=_RedialingClient),
        profile=CROWDED,
        seed=155,
    ),
    Mutant(
        name="work starts without a grant",
        protects="C1",
        seen_by=(ended_is_a_fact, i11_nothing_starts_late),
        parts=Parts(agent=_UngrantedAgent),
        seed=90,
    ),
    Mutant(
        name="no table entry before the claim",
        protects="C2",
        seen_by=(ended_is_a_fact,),
        parts=Parts(agent=_UnlistedAgent),
        patches=(_agent_rule("stop_plan", _unburied), _agent_rule("doomed", _claiming_is_not_doomed)),
        profile=without(
            CANCELS,
            weather=Weather(late=0.7, late_s=78.0),
            freeze=0.0,
            blows_most=0,
            models=(3,),
            nodes=(2,),
            load_s=(1.0, 4.0),
            trouble_s=(400.0,),
        ),
        seed=3,
    ),
    Mutant(
        name="a grant never ages",
        protects="C3",
        seen_by=(i11_nothing_starts_late, i11_not_ready_is_dead_within_the_kill_ttl),
        patches=(_agent_rule("granted", _unaged),),
        profile=without(CUT_AGENTS, freeze=0.5, freeze_at="grant received", freezes_s=(120.0, 200.0, 250.0)),
        seed=45,
    ),
    Mutant(
        name="a renewal counts from its arrival",
        protects="C4",
        seen_by=(i11_not_ready_is_dead_within_the_kill_ttl, work_is_dead_before_the_hold_ends),
        parts=Parts(agent=_LateAgent),
        profile=without(
            CUT_AGENTS,
            freeze=0.2,
            freeze_at="report answered",
            freezes_s=(75.0, 80.0, 200.0),
            cancels=0.9,
            load_s=(200.0, 300.0),
            blows=("cut agent",),
            blows_most=8,
        ),
        seed=145,
    ),
    Mutant(
        name="an owner stops when its own lease is over",
        protects="C5",
        seen_by=(stops_come_from_rows,),
        parts=Parts(control=_StoppingControl),
    ),
    Mutant(
        name="a lost answer counts as a failure",
        protects="C6",
        seen_by=(stops_come_from_rows, i3_ready_is_not_killed),
        parts=Parts(control=_PanickingControl),
        profile=LOST_COMMITS,
    ),
    Mutant(
        name="READY of a doomed row is not stopped after the hold",
        protects="C7",
        seen_by=(quiet_is_reached,),
        parts=Parts(sweeps=_ShortSweeps),
        patches=(_agent_rule("answered", _stop_spares_ready),),
        profile=without(CUT_AGENTS, load_s=(8.0, 30.0), cancels=0.9),
        seed=71,
    ),
    Mutant(
        name="finish compares no incarnation, and a registration ends nothing",
        protects="C8",
        seen_by=(a_finished_load_is_of_the_life_that_is_registered,),
        parts=Parts(operations=_CarelessOperations),
        patches=(_without(Finish, same_incarnation),),
        profile=without(
            ALL,
            blows=("kill agent",),
            blows_most=8,
            freeze=0.5,
            freeze_at="finish: before",
            freezes_s=(10.0, 20.0),
            load_s=(2.0, 8.0),
        ),
    ),
    Mutant(
        name="an end is reported before the group is gone",
        protects="C10",
        seen_by=(ended_is_a_fact,),
        patches=(_agent_rule("settled", _ended_at_once),),
        profile=without(CANCELS, refusals=0.4),
    ),
    Mutant(
        name="no start gate",
        protects="C12",
        seen_by=(quiet_is_reached, ended_is_a_fact),
        parts=Parts(agent=_UngatedAgent, machine=_UngatedMachine),
        profile=without(ALL, crash=0.02),
        seed=16,
    ),
    Mutant(
        name="the reservation ends with the attempt",
        protects="C14",
        seen_by=(a_pending_stop_keeps_its_slot, i1_one_process_for_each_slot),
        # A short hold, so that it often ends before the proof.
        parts=Parts(tables=_HastyTables, windows=Windows(stop_s=30.0)),
        profile=without(CUT_AGENTS, load_s=(8.0, 30.0), cancels=0.9),
        seed=37,
    ),
    Mutant(
        name="the stop window is below the kill TTL",
        protects="C15",
        seen_by=(work_is_dead_before_the_hold_ends,),
        parts=Parts(windows=Windows(stop_s=60.0)),
        profile=without(CUT_AGENTS, freeze=0.0, load_s=(200.0, 300.0), cancels=0.9),
    ),
    Mutant(
        name="finish looks at no revision",
        protects="C21",
        seen_by=(a_finished_load_is_of_the_revision_that_holds,),
        patches=(_without(Finish, revision_unchanged),),
        profile=without(EDITS, freeze=0.5, freeze_at="finish: before", freezes_s=(10.0, 20.0)),
    ),
    Mutant(
        name="an order that was claimed goes to another node",
        protects="relocation",
        seen_by=(quiet_is_reached,),
        patches=(_without(Relocate, unclaimed),),
        profile=without(
            ALL,
            nodes=(2,),
            weather=Weather(late=0.7, late_s=60.0),
            freeze=0.8,
            freeze_at="relocate: before",
            freezes_s=(10.0, 30.0),
            crash=0.0,
        ),
        seed=30,
    ),
    Mutant(
        name="a registration that is carried out late begins a life",
        protects="registration",
        seen_by=(ended_is_a_fact,),
        parts=Parts(agent=_NamelessAgent),
    ),
    Mutant(
        name="a sweep takes a lease for lapsed that is valid",
        protects="the lease",
        seen_by=(a_valid_lease_is_not_taken_away,),
        parts=Parts(sweeps=_GreedySweeps),
        patches=(_without(Lapse, lease_lapsed), _without(Requeue, lease_lapsed)),
    ),
    Mutant(
        name="adopt takes a lease for lapsed that is valid",
        protects="the lease",
        seen_by=(a_valid_lease_is_not_taken_away,),
        patches=(_without(Adopt, lease_lapsed),),
    ),
    Mutant(
        name="adopt without a fresh report",
        protects="adoption",
        seen_by=(adoption_needs_proof,),
        patches=(_without(Adopt, heard_of),),
    ),
    Mutant(
        name="a load is adopted for ever",
        protects="adoption",
        seen_by=(adoption_needs_proof,),
        patches=(_without(Adopt, adoptions_left),),
        profile=without(
            LOST_OWNERS,
            blows=("freeze control",),
            blows_most=30,
            load_s=(200.0, 300.0),
            trouble_s=(400.0,),
            cancels=0.0,
        ),
    ),
    Mutant(
        name="an adoption draws no generation",
        protects="C13",
        seen_by=(i2_no_write_of_an_old_generation,),
        patches=(_changed_move(Adopt, effect=_adopted_as_before),),
    ),
    Mutant(
        name="an adoption renames the operation",
        protects="adoption",
        seen_by=(i2_no_write_of_an_old_generation,),
        patches=(_changed_move(Adopt, effect=_renamed_by_adoption),),
    ),
    Mutant(
        name="renew of an adopted load without generation and owner",
        protects="C13",
        seen_by=(i2_no_write_of_an_old_generation,),
        patches=(_without(Renew, owned),),
        profile=without(LOST_OWNERS, freeze=0.3, freeze_at="renew: before", blows=("kill control",)),
    ),
    Mutant(
        name="finish of an adopted load without generation and owner",
        protects="C13",
        seen_by=(i2_no_write_of_an_old_generation,),
        patches=(_without(Finish, owned),),
        profile=without(LOST_OWNERS, freeze=0.5, freeze_at="finish: before", load_s=(2.0, 8.0)),
    ),
    Mutant(
        name="fail of an adopted load without generation and owner",
        protects="C13",
        seen_by=(i2_no_write_of_an_old_generation,),
        patches=(_without(Fail, owned),),
        profile=without(
            LOST_OWNERS, freeze=0.5, freeze_at="fail: before", load_s=(2.0, 8.0), refusals=0.8, corruption=0.0
        ),
    ),
    Mutant(
        name="no sweep looks for lapsed leases",
        protects="the lease",
        seen_by=(quiet_is_reached,),
        parts=Parts(sweeps=_LazySweeps),
    ),
)
