"""One cold load from the request to the routing table, and what each part of it writes."""

from __future__ import annotations

import pytest

from localai.jobs.job import State, StopState
from localai.jobs.operation_rules import Answer, OperationError, OpState, Phase
from tests.integration.world import Agent, Control, World, placed_load, serving_load

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def no_other_nodes(world: World) -> None:
    """What is placed goes to an agent of the test: those of earlier tests are gone."""
    for node in world.nodes.list():
        world.nodes.deregister(node.id)


def test_a_load_goes_from_request_to_routing_table(world: World) -> None:
    agent, control = Agent(world), Control(world)
    before = world.replicas.routing_version()
    ticket = world.loads.request("smoke", "r1")
    assert ticket.state == "created"
    assert world.wakeups.control[-1] == (ticket.job_id, ticket.generation)
    assert world.loads.request("smoke", "r1").state == "live"

    job = control.step(ticket.job_id)
    assert (job.state, job.op_state) == (State.RUNNING, OpState.SENT)
    assert world.wakeups.orders[-1] == (job.node_id, job.id, job.op_generation)

    order = agent.claim(job)
    assert (order.model, order.slot, order.backend, order.identity) == ("smoke", 0, "fault", "smoke")
    answer = agent.change(job, phase=Phase.INSTALLING, progress=1)
    assert [item.answer for item in answer.operations] == [Answer.KEEP]
    assert world.loads.status("smoke").state == "installing"  # type: ignore[union-attr]

    instance, _ = agent.become_ready(job)
    assert world.wakeups.control[-1] == (job.id, job.generation)
    job = control.step(job.id)
    assert job.state == State.SUCCEEDED
    snapshot = world.replicas.routing_snapshot()
    (replica,) = [item for item in snapshot.replicas if item.model == "smoke"]
    assert (replica.process_instance, replica.identity, replica.slot) == (instance, "smoke", 0)
    assert snapshot.version > before
    assert [item.answer for item in agent.report().operations] == [Answer.COMPLETE]
    assert world.events(job.id) == [
        "requested", "taken", "placed", "claimed", "operation_phase", "operation_ready", "succeeded",
    ]  # fmt: skip
    assert world.loads.status("smoke") is None
    assert world.loads.request("smoke", "r1").state == "loaded"


def test_a_backend_error_is_the_cause_and_frees_the_slot_at_once(world: World) -> None:
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "fails")
    agent.claim(job)
    agent.end(job, OperationError(cause="start_failed", message="it exits", stderr_tail="on fire"))
    job = control.step(job.id)
    assert (job.state, job.error_cause, job.stop_state) == (State.FAILED, "start_failed", StopState.CONFIRMED)
    assert world.replica("fails") is None
    status = world.loads.status("fails")
    assert status is not None and status.state == "failed"
    assert 1 <= (status.retry_after or 0) <= 15
    assert "on fire" in (status.last_error or "")
    held = world.loads.request("fails", "r1")
    assert (held.state, held.job_id) == ("held", job.id)
    world.end_hold(job.id)
    assert world.loads.request("fails", "r1").state == "created"


def test_two_models_go_to_two_nodes(world: World) -> None:
    agents, control = [Agent(world), Agent(world)], Control(world)
    homes = {serving_load(world, control, agents, model)[1].id for model in ("first", "second")}
    assert homes == {agent.id for agent in agents}


def test_a_ready_that_does_not_say_where_fails_the_load_and_stops_it(world: World) -> None:
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "nowhere-ready")
    agent.claim(job)
    agent.change(job, op_state=OpState.READY)
    job = control.step(job.id)
    assert (job.state, job.error_cause, job.stop_state) == (State.FAILED, "internal", StopState.PENDING)


def test_words_that_no_column_can_hold_do_not_keep_a_load_from_failing(world: World) -> None:
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "odd-words")
    agent.claim(job)
    agent.end(job, OperationError(cause="start_failed", message="half \ud800 and \x00", stderr_tail="a\x00b \udfff"))
    job = control.step(job.id)
    assert (job.state, job.error) == (State.FAILED, "half ? and \ufffd")
    assert job.error_detail is not None and job.error_detail["stderr_tail"] == "a\ufffdb ?"
