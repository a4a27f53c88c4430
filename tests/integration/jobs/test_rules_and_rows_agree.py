"""The pure state machine and the statements are one: random histories give the same rows on both.

Each history makes the same moves on a value (`rules.decide`) and on the row; whatever one refuses, the other must refuse,
and what both accept must leave the same job. Time moves by shifting the row's clocks, as every window is relative.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from localai.ids import JobId, NodeId, OwnerId, ProcessInstance, new_id
from localai.jobs import rules
from localai.jobs.attempts import Ending, end
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Claim,
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
    Take,
    WorkGone,
)
from localai.jobs.guard_rules import MAX_ADOPTIONS
from localai.jobs.job import Job, State, StopState
from localai.jobs.operation_rules import OperationError, OperationReport, OpState, Phase
from localai.jobs.rows import SQL, one_job
from localai.loads.ports import Reservation
from localai.placement.rules import Placement
from tests.integration.world import Agent, World

pytestmark = pytest.mark.integration

OWNERS = (OwnerId("control-a"), OwnerId("control-b"))
#: How far two clocks that are read one after the other may stand apart on a busy machine.
APART = timedelta(seconds=20)
TIMES = [field.name for field in fields(Job) if "datetime" in str(field.type) and field.name != "read_at"]
#: Written by what no move is about.
APART_FROM_MOVES = {"read_at", "node_name"}


class Machine:
    """Applies one event to the row, by the store's own methods where they exist for a single job."""

    def __init__(self, world: World, agent: Agent, model: str) -> None:
        self.world, self.agent, self.model = world, agent, model
        ticket = world.loads.request(model, "r1")
        world.load_rows.revise(model, "r1")
        self.id = JobId(ticket.job_id)

    def row(self) -> Job:
        return self.world.job(self.id)

    def apply(self, event: Event, job: Job) -> bool:
        return bool(getattr(self, f"_{type(event).__name__}")(event, job))

    def _one(self, statement: str, parameters: dict[str, Any]) -> Job | None:
        with self.world.unit_of_work() as uow:
            return one_job(uow.execute(SQL[statement], {"id": self.id, **parameters}))

    def _Take(self, event: Take, job: Job) -> Any:
        return self.world.jobs.take(self.id, event.generation, event.owner)

    def _Place(self, event: Place, job: Job) -> Any:
        choose: Callable[[Any], Any] = lambda _: Placement(node_id=self.agent.id, node_name=self.agent.name)  # noqa: E731
        reservation = Reservation(backend="fault", reserved_bytes=0, order=event.order)
        placed = self.world.load_rows.place(replace(job, generation=event.generation), event.owner, choose, reservation)
        return isinstance(placed, Job)

    def _Relocate(self, event: Relocate, job: Job) -> Any:
        choose: Callable[[Any], Any] = lambda _: Placement(node_id=self.agent.id, node_name=self.agent.name)  # noqa: E731
        mine = replace(job, generation=event.generation)
        return isinstance(self.world.load_rows.relocate(mine, event.owner, choose), Job)

    def next_generation(self) -> int:
        """What the counter of the subject gives next."""
        (row,) = self.world.sql("SELECT last_generation FROM subjects WHERE name = %(m)s", m=self.model)
        return int(row["last_generation"]) + 1

    def _Resend(self, event: Resend, job: Job) -> Any:
        # The statement has no generation: it reads the row it doubles, and the owner's id is of one process only.
        if event.generation != job.generation:
            return False
        return self.id in {job.id for job in self.world.jobs.resend_due(event.owner, 100)}

    def _Claim(self, event: Claim, job: Job) -> Any:
        names = {"node": event.node_id, "incarnation": event.incarnation, "op_generation": event.op_generation}
        return self._one("claim_operation", {**names, "seq": event.seq})

    def _Reported(self, event: Reported, job: Job) -> Any:
        given = OperationReport(
            job_id=self.id,
            op_generation=event.op_generation,
            op_state=event.op_state,
            phase=event.phase,
            progress=event.progress,
            bytes_done=event.bytes_done,
            process_instance=event.process_instance,
            address=event.address,
            identity=event.identity,
            error=OperationError(**event.error) if event.error else None,
        )
        with self.world.unit_of_work() as uow:
            rows = self.world.operation_rows
            return rows._progress(uow, event.node_id, event.incarnation, given, job)

    def _Missing(self, event: Missing, job: Job) -> Any:
        from localai.jobs.effect_rules import OPERATION_LOST
        from localai.jobs.rows import to_json

        return self._one(
            "operation_missing",
            {
                "node": event.node_id,
                "incarnation": event.incarnation,
                "op_generation": event.op_generation,
                "seq": event.seq,
                "missing_reports": 3,
                "error": to_json(OPERATION_LOST),
            },
        )

    def _Renew(self, event: Renew, job: Job) -> Any:
        return self.world.jobs.renew(event.owner, [(self.id, event.generation)]).renewed

    def _Progress(self, event: Progress, job: Job) -> Any:
        return self.world.jobs.progress(self.id, event)

    def _Finish(self, event: Finish, job: Job) -> Any:
        return isinstance(self.world.load_rows.finish(replace(job, generation=event.generation), event.owner), Job)

    def _FinishWork(self, event: FinishWork, job: Job) -> Any:
        return self.world.jobs.finish(self.id, event.generation, event.owner)

    def _Fail(self, event: Fail, job: Job) -> Any:
        return self.world.jobs.fail(self.id, event)

    def _Adopt(self, event: Adopt, job: Job) -> Any:
        named = {"generation": event.generation, "new_generation": event.new_generation, "owner": event.owner}
        bounds = {"fresh": event.fresh_s, "most": MAX_ADOPTIONS, "lease": self.world.windows.lease_s}
        return self._one("adopt_job", {**named, **bounds})

    def _Release(self, event: Release, job: Job) -> Any:
        # The statement has no generation: the owner's id is of one process only, and it ends.
        if event.generation != job.generation:
            return False
        return self.id in {job.id for job in self.world.jobs.release(event.owner)}

    def _Lapse(self, event: Lapse, job: Job) -> Any:
        cause, error = rules.effect_rules.lapse_cause(job)
        ending = Ending(
            move=Lapse,
            guard="lapse",
            to=State.FAILED,
            cause=cause,
            error=error,
            detail=job.op_error,
            fence={"generation": event.generation},
        )
        return self._end(ending)

    def _Cancel(self, event: Cancel, job: Job) -> Any:
        return next(iter(self.world.cancel_rows.cancel(self.id, "test")), None)

    def _NewIncarnation(self, event: NewIncarnation, job: Job) -> Any:
        ending = Ending(
            move=NewIncarnation,
            guard="incarnation",
            to=State.FAILED,
            cause="worker_restarted",
            error=rules.effect_rules.WORKER_RESTARTED,
            ended=True,
            fence={"node": event.node_id, "incarnation": event.incarnation},
        )
        return self._end(ending)

    def _ConfirmStop(self, event: ConfirmStop, job: Job) -> Any:
        return self.world.operation_rows.confirm_stop(self.id, event.op_generation, event.incarnation, "test")

    def _RetryStop(self, event: RetryStop, job: Job) -> Any:
        return self.id in {job.id for job in self.world.sweeps.due_stops(100)}

    def _GiveUpStop(self, event: GiveUpStop, job: Job) -> Any:
        return self.id in {job.id for job in self.world.sweeps.give_up_stops(100)}

    def _end(self, ending: Ending) -> Job | None:
        with self.world.unit_of_work() as uow:
            return end(uow, self.world.windows, self.id, ending, actor="test")

    def let_pass(self, seconds: float) -> None:
        """Move every clock of the row back."""
        shifts = ", ".join(f"{name} = {name} - make_interval(secs => %(s)s)" for name in TIMES)
        self.world.sql(f"UPDATE jobs SET {shifts} WHERE id = %(id)s", s=seconds, id=self.id)


def _event(draw: random.Random, job: Job, agent: Agent, next_generation: int) -> Event:
    generation = job.generation if draw.random() < 0.85 else job.generation - 1
    owner = job.owner or draw.choice(OWNERS)
    owner = owner if draw.random() < 0.9 else draw.choice(OWNERS)
    incarnation = agent.incarnation + draw.choice([0, 0, 0, 0, 1, -1])
    op_generation = (job.op_generation or job.generation) - (draw.random() < 0.1)
    operation: dict[str, Any] = {
        "op_generation": op_generation,
        "node_id": agent.id if draw.random() < 0.95 else NodeId(new_id()),
        "incarnation": incarnation,
    }
    mine: dict[str, Any] = {"generation": generation, "owner": owner}
    op_state = draw.choice([OpState.SENT, OpState.CLAIMED, OpState.CLAIMED, OpState.READY, OpState.ENDED])
    instance = ProcessInstance(new_id())
    said = {"cause": "load_refused", "message": "no", "stderr_tail": ""} if op_state is OpState.ENDED else None
    events: list[Event] = [
        Take(**mine),
        Place(**mine, node_id=agent.id, order={"n": draw.randrange(9)}, legacy=agent.legacy),
        Relocate(
            **mine,
            node_id=agent.id,
            op_generation=next_generation,
            order={**job.args.get("order", {}), "op_generation": next_generation},
            legacy=agent.legacy,
        ),
        Resend(**mine),
        Claim(**operation, seq=draw.randrange(3)),
        Reported(
            **operation,
            op_state=op_state,
            phase=draw.choice(list(Phase)),
            progress=draw.randrange(50),
            bytes_done=draw.randrange(99),
            process_instance=instance,
            address="127.0.0.1:1",
            identity="m",
            error=said,
        ),
        Missing(**operation, seq=draw.randrange(4)),
        Renew(**mine),
        Progress(**mine, bytes_done=draw.randrange(9), message="moving"),
        Finish(**mine, revision="r1", incarnation=agent.incarnation),
        FinishWork(**mine),
        Fail(**mine, cause="budget_over", error="too long", ended=draw.random() < 0.3),
        Adopt(generation=generation, new_generation=job.generation + 1, owner=draw.choice(OWNERS), fresh_s=15.0),
        Release(**mine, fresh_s=15.0),
        Lapse(generation=generation),
        Cancel(),
        NewIncarnation(node_id=agent.id, incarnation=incarnation + draw.choice([0, 1])),
        ConfirmStop(op_generation=op_generation, incarnation=incarnation),
        RetryStop(),
        GiveUpStop(),
    ]
    return draw.choices(events, [_weight(event, job) for event in events])[0]


def _weight(event: Event, job: Job) -> float:
    """The next move of a load is likely, an end of it is rare: a history that ends at once shows nothing."""
    if isinstance(event, FinishWork | Fail | Release | Lapse | Cancel | NewIncarnation):
        return 0.5
    likely: dict[type[Event], bool] = {
        Take: job.state == State.QUEUED,
        Place: job.op_generation is None,
        Claim: job.op_state == OpState.SENT,
        Reported: job.op_state is not None,
        Finish: job.op_state == OpState.READY,
        GiveUpStop: job.legacy,
        Adopt: job.lease_expires_at is not None and job.lease_expires_at <= job.read_at,
        Renew: False,
        Progress: False,
    }
    return 6.0 if likely.get(type(event), False) else 1.0


#: Moves that belong to kinds without an operation of their own; `test_sweep` and `test_reports` make them.
OF_OTHER_KINDS = {Requeue, WorkGone}
HISTORIES, STEPS = 90, 24


def test_random_histories_give_the_same_rows(world: World) -> None:
    agents, accepted_moves = (Agent(world), Agent(world, legacy=True)), set()
    for seed in range(HISTORIES):
        draw = random.Random(seed)
        agent = agents[seed % 3 == 0]
        machine = Machine(world, agent, f"history-{seed}")
        for _ in range(STEPS):
            if draw.random() < 0.25:
                ends_by_time = agent.legacy and machine.row().stop_state == StopState.PENDING
                machine.let_pass(2700 if ends_by_time else draw.choice([3, 3, 11, 11, 31, 200, 2700]))
            before = machine.row()
            event = _event(draw, before, agent, machine.next_generation())
            outcome = rules.decide(before, event, before.read_at, world.windows)
            accepted = machine.apply(event, before)
            trail = f"seed {seed}: {event} on {before}"
            assert accepted == isinstance(outcome, rules.Accepted), f"{outcome} but {accepted}: {trail}"
            expected = outcome.job if isinstance(outcome, rules.Accepted) else before
            assert _differences(expected, machine.row()) == [], trail
            if accepted:
                accepted_moves.add(type(event))
        world.sql("DELETE FROM replicas WHERE job_id = %(id)s", id=machine.id)
    assert accepted_moves == {move.event for move in rules.MOVES} - OF_OTHER_KINDS, "the histories must go everywhere"


def _differences(expected: Job, row: Job) -> list[tuple[str, Any, Any]]:
    found = []
    for field in fields(Job):
        if field.name in APART_FROM_MOVES:
            continue
        one, other = getattr(expected, field.name), getattr(row, field.name)
        if isinstance(one, datetime) and isinstance(other, datetime):
            if abs(one - other) <= APART:
                continue
        elif one == other:
            continue
        found.append((field.name, one, other))
    return found
