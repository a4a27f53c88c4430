"""A queue message is a wake-up: late, doubled or after the end of its job it has no effect of its own. TQ-01, 04, 06."""

from __future__ import annotations

import pytest

from localai.errors import Replaced
from localai.jobs.job import State
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import OpState
from localai.jobs.operations import WorkerMustDrop
from localai.jobs.ports import NewJob
from tests.integration.world import Agent, Control, World, in_thread, placed_load

pytestmark = pytest.mark.integration


class Deadly:
    """Work during which its process dies, as far as its job can see."""

    def __init__(self, world: World) -> None:
        self.world, self.attempts_seen = world, list[int]()

    def due(self, job: object) -> bool:
        return False

    def step(self, job: object) -> None:
        job_id = job.id  # type: ignore[attr-defined]
        self.attempts_seen.append(self.world.job(job_id).attempts)
        self.world.lapse(job_id)


def test_tq_01_the_attempt_stands_in_the_row_before_its_work_begins_and_attempts_are_few(world: World) -> None:
    _, view = world.job_service.request(NewJob(kind=MODEL_INSTALL, subject="deadly"))
    work = Deadly(world)
    for _ in range(5):
        dying = Control(world, more={MODEL_INSTALL: lambda owner: work})
        dying.step(view.id)
        Control(world).sweep.run_once()
    row = world.job(view.id)
    assert work.attempts_seen == [1, 2, 3], "each death found its attempt counted already"
    assert (row.state, row.error_cause, row.attempts) == (State.FAILED, "owner_lost", 3)
    assert world.events(view.id).count("failed") == 1


def test_tq_04_a_job_that_was_cancelled_is_not_begun_by_a_message_that_comes_later(world: World, agent: Agent) -> None:
    ticket = world.loads.request("tq-04-queued", "r1")
    world.cancels.cancel(ticket.job_id)
    sent = len(world.wakeups.orders)
    row = Control(world).step(ticket.job_id)
    assert (row.state, row.attempts, row.owner) == (State.CANCELLED, 0, None)
    assert len(world.wakeups.orders) == sent


def test_tq_04_a_cancel_is_no_error_that_is_tried_again(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "tq-04-running")
    world.cancels.cancel(job.id)
    with pytest.raises(WorkerMustDrop):  # the second delivery of the order
        agent.claim(job)
    sent = len(world.wakeups.orders)
    for _ in range(3):
        control.step(job.id)
        control.sweep.run_once()
    row = world.job(job.id)
    assert (row.state, row.attempts, row.op_state) == (State.CANCELLED, 1, OpState.SENT)
    assert len(world.wakeups.orders) == sent
    assert world.events(job.id).count("cancelled") == 1


def test_tq_04_an_owner_that_shuts_down_in_its_work_fails_no_job(world: World) -> None:
    """The work ends with an error because its process ends; its lease is over by then, and nothing is written."""
    _, view = world.job_service.request(NewJob(kind=MODEL_INSTALL, subject="tq-04-shutdown"))
    control = Control(world)
    job = world.jobs.take(world.job(view.id).id, world.job(view.id).generation, control.owner.id)
    assert job is not None
    world.lapse(job.id)
    Control(world).sweep.run_once()
    with pytest.raises(Replaced):
        control.owner.fail(job, "internal", "interrupted", ended=True)
    assert world.job(job.id).state == State.QUEUED


def test_tq_06_five_messages_of_one_job_at_once_are_one_effect(world: World, agent: Agent) -> None:
    ticket = world.loads.request("tq-06", "r1")
    controls = [Control(world), Control(world)]
    sent = len(world.wakeups.orders)
    runs = [in_thread(lambda n=n: controls[n % 2].step(ticket.job_id)) for n in range(5)]  # type: ignore[misc]
    for thread, _ in runs:
        thread.join(60)
    row = world.job(ticket.job_id)
    assert (row.state, row.attempts, row.op_state) == (State.RUNNING, 1, OpState.SENT)
    assert world.wakeups.orders[sent:] == [(row.node_id, row.id, row.op_generation)]
    events = world.events(row.id)
    assert (events.count("taken"), events.count("placed")) == (1, 1)
