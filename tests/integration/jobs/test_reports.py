"""What a full report of an agent does to rows, and what it may not do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localai.errors import NotFound, Replaced
from localai.ids import NodeId, new_id
from localai.jobs.cancel_rules import CancelState
from localai.jobs.job import State, StopState
from localai.jobs.operation_rules import Answer, OperationError, OpState, Phase, Report
from tests.integration.world import Agent, Control, World, placed_load, serving_load

pytestmark = pytest.mark.integration


def test_a_report_is_progress_and_renewal_in_one(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "progress")
    agent.claim(job)
    answer = agent.change(job, phase=Phase.STAGING, progress=5, bytes_done=10, bytes_total=40, file_index=1)
    assert answer.operations[0].answer is Answer.KEEP
    row = world.job(job.id)
    assert (row.phase, row.bytes_done, row.bytes_total, row.progress) == (Phase.STAGING, 10, 40, 5)
    assert row.progress_at is not None
    moved_at = row.progress_at
    agent.change(job, progress=5)
    assert world.job(job.id).progress_at == moved_at, "a report without progress is not progress"
    agent.change(job, progress=6)
    assert (world.job(job.id).progress_at or moved_at) > moved_at


def test_a_report_that_is_not_the_youngest_changes_nothing_and_is_still_answered(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "late")
    agent.claim(job)
    old = agent.build()
    agent.change(job, phase=Phase.LOADING, progress=2)
    late = replace(old, operations=(replace(old.operations[0], phase=Phase.INSTALLING, progress=1),))
    assert agent.send(late).operations[0].answer is Answer.KEEP
    assert world.job(job.id).phase == Phase.LOADING


def test_a_late_report_without_a_process_does_not_delete_its_replica(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "late-replica")
    agent.claim(job)
    early = agent.build()
    agent.become_ready(job)
    control.step(job.id)
    agent.send(early)
    assert any(item.model == "late-replica" for item in world.replicas.routing_snapshot().replicas)


def test_three_full_reports_without_a_claimed_operation_end_it(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "lost")
    agent.claim(job)
    agent.report()
    agent.forget(job)
    for _ in range(2):
        agent.report()
    assert world.job(job.id).op_state == OpState.CLAIMED
    agent.report()
    assert world.job(job.id).op_state == OpState.ENDED
    row = control.step(job.id)
    assert (row.state, row.error_cause, row.stop_state) == (State.FAILED, "operation_lost", StopState.CONFIRMED)


def test_one_report_with_the_operation_makes_the_count_begin_again(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "found-again")
    agent.claim(job)
    agent.report()
    mine = agent.operations.copy()
    agent.forget(job)
    agent.report()
    agent.report()
    agent.operations = mine
    agent.report()
    assert world.job(job.id).op_missing == 0


def test_an_order_that_nobody_claimed_is_not_missing(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "in-the-queue")
    for _ in range(5):
        agent.report()
    assert (world.job(job.id).op_state, world.job(job.id).op_missing) == (OpState.SENT, 0)


def test_an_operation_without_a_grant_is_not_kept_alive(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "claiming")
    agent.claim(job)
    world.sql(
        "UPDATE jobs SET node_incarnation = NULL, op_state = 'sent', op_claim_seq = NULL WHERE id = %(id)s", id=job.id
    )
    assert agent.report().operations[0].answer is Answer.WAIT


def test_an_operation_without_a_row_waits(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "no-row")
    agent.claim(job)
    elsewhere = replace(agent.operations.pop((job.id, job.op_generation or 0)), job_id=new_id())
    agent.operations[(elsewhere.job_id, elsewhere.op_generation)] = elsewhere
    assert agent.report().operations[0].answer is Answer.WAIT


def test_a_process_that_ended_takes_its_replica_out_of_the_routing(
    world: World, control: Control, agent: Agent
) -> None:
    _, agent, instance = serving_load(world, control, [agent], "crashes")
    before = world.replicas.routing_version()
    del agent.processes[instance]
    agent.report()
    assert world.replicas.routing_version() > before
    assert world.replica("crashes") is None
    assert world.loads.request("crashes", "r1").state == "created"


def test_a_report_in_which_nothing_changed_writes_nothing(world: World, control: Control, agent: Agent) -> None:
    _, agent, _ = serving_load(world, control, [agent], "steady")
    agent.report()
    before = world.sql("SELECT xmin::text, report_seq FROM nodes WHERE id = %(id)s", id=agent.id)
    agent.report()
    assert world.sql("SELECT xmin::text, report_seq FROM nodes WHERE id = %(id)s", id=agent.id) == before


def test_a_report_of_an_older_incarnation_is_refused_and_one_of_an_unknown_node_too(world: World, agent: Agent) -> None:
    Agent(world, agent.name)
    with pytest.raises(Replaced):
        agent.report()
    with pytest.raises(NotFound):
        world.operations.report(NodeId(new_id()), Report(incarnation=1, seq=1))


def test_an_ended_report_of_a_cancelled_load_confirms_the_stop_and_shortens_the_hold(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "cancelled")
    agent.claim(job)
    world.cancels.cancel(job.id)
    long_hold = world.job(job.id).hold_until
    world.cancels.cancel(job.id)
    assert world.job(job.id).hold_until == long_hold, "a repeat never extends the hold"
    assert world.replica("cancelled") is not None, "slot and memory stay taken"
    agent.end(job, OperationError(cause="cancelled", message="stopped by request"))
    row = world.job(job.id)
    assert row.stop_state == StopState.CONFIRMED
    assert row.hold_until is not None and long_hold is not None and row.hold_until < long_hold
    assert (row.hold_until - row.read_at).total_seconds() <= world.windows.report_s
    assert world.replica("cancelled") is None


def test_a_listed_process_keeps_a_stop_pending(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "still-there")
    agent.claim(job)
    instance = agent.start(job)
    agent.report()
    world.cancels.cancel(job.id)
    agent.forget(job)
    answer = agent.report()
    assert answer.stop_processes == (instance,)
    assert world.job(job.id).stop_state == StopState.PENDING
    del agent.processes[instance]
    agent.report()
    assert world.job(job.id).stop_state == StopState.CONFIRMED


def test_a_cancel_before_placement_is_confirmed_at_once(world: World) -> None:
    ticket = world.loads.request("not-placed", "r1")
    assert world.cancels.cancel(ticket.job_id).state is CancelState.STOPPED
    row = world.job(ticket.job_id)
    assert (row.state, row.stop_state) == (State.CANCELLED, StopState.CONFIRMED)
    assert row.hold_until is not None
    assert (row.hold_until - row.read_at).total_seconds() <= world.windows.report_s
