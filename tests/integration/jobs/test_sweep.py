"""What a pass finds when messages were lost, owners died and nodes stayed silent."""

from __future__ import annotations

from datetime import timedelta

import pytest

from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.job import State, StopState
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import Answer, OperationError, OpState
from localai.jobs.ports import NewJob
from localai.loads.budget_rules import Budgets
from tests.integration.world import Agent, Control, World, in_thread, placed_load

pytestmark = pytest.mark.integration


def _overdue(world: World, job_id: str, column: str, seconds: float = 1) -> None:
    world.sql(
        f"UPDATE jobs SET {column} = clock_timestamp() - make_interval(secs => %(s)s) WHERE id = %(id)s",
        s=seconds,
        id=job_id,
    )


def test_a_queued_job_whose_wake_up_was_lost_is_stepped(world: World, agent: Agent) -> None:
    ticket = world.loads.request("lost-wake", "r1")
    control = Control(world)
    control.sweep.run_once()
    assert world.job(ticket.job_id).state == State.QUEUED, "its window is not over"
    _overdue(world, ticket.job_id, "dispatch_expires_at")
    control.sweep.run_once()
    assert world.job(ticket.job_id).op_state == OpState.SENT


def test_a_window_that_lapsed_doubles_and_only_one_sweep_gets_the_job(world: World) -> None:
    ticket = world.loads.request("doubling", "r1")
    _overdue(world, ticket.job_id, "dispatch_expires_at")
    taken = [[job.id for job in world.sweeps.due_queued(100)] for _ in range(2)]
    assert [ticket.job_id in ids for ids in taken] == [True, False]
    assert world.job(ticket.job_id).dispatch_window_s == world.windows.dispatch_s * 2
    world.cancels.cancel(ticket.job_id)


def test_an_order_nobody_claimed_is_sent_again_with_a_doubled_window_up_to_the_cap(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "resend")
    for _ in range(6):
        sent = len(world.wakeups.orders)
        _overdue(world, job.id, "dispatch_expires_at")
        control.sweep.run_once()
        assert world.wakeups.orders[sent:] == [(job.node_id, job.id, job.op_generation)]
    assert world.job(job.id).dispatch_window_s == world.windows.dispatch_max_s
    agent.claim(job)
    sent = len(world.wakeups.orders)
    control.sweep.run_once()
    assert len(world.wakeups.orders) == sent, "a claimed order is never sent again"


def test_no_order_is_sent_again_while_its_node_is_not_ready(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "not-ready")
    world.nodes.deregister(agent.id)
    _overdue(world, job.id, "dispatch_expires_at")
    sent = len(world.wakeups.orders)
    control.sweep.run_once()
    assert len(world.wakeups.orders) == sent


def test_lj_06_a_dead_owner_s_load_goes_on_under_another_one(world: World, agent: Agent) -> None:
    dead, other = Control(world), Control(world)
    job = placed_load(world, dead, "lj-06-adopted")
    agent.claim(job)
    agent.report()
    world.lapse(job.id)
    sent = len(world.wakeups.orders)
    other.sweep.run_once()
    row = world.job(job.id)
    assert (row.state, row.owner, row.adoptions) == (State.RUNNING, other.owner.id, 1)
    assert row.generation > job.generation and row.op_generation == job.op_generation
    assert world.wakeups.orders[sent:] == [], "the agent is sent nothing"
    assert [item.answer for item in agent.report().operations] == [Answer.KEEP]
    assert other.owner.leases.held() == [(job.id, row.generation)]
    agent.become_ready(job)
    other.sweep.run_once()
    assert world.job(job.id).state == State.SUCCEEDED
    assert world.events(job.id).count("succeeded") == 1


def test_lj_06_a_load_that_its_dead_owner_had_not_sent_is_placed_by_the_next_one(world: World, agent: Agent) -> None:
    dead, other = Control(world), Control(world)
    ticket = world.loads.request("lj-06-unsent", "r1")
    taken = dead.owner.take(world.job(ticket.job_id))
    assert taken is not None
    world.lapse(taken.id)
    other.sweep.run_once()
    row = world.job(taken.id)
    assert (row.owner, row.op_state, row.adoptions) == (other.owner.id, OpState.SENT, 1)
    assert row.op_generation == row.generation > taken.generation
    assert agent.claim(row).op_generation == row.generation


def test_what_an_owner_that_ends_gave_back_goes_on_elsewhere_at_once(world: World, agent: Agent) -> None:
    ending, other = Control(world), Control(world)
    job = placed_load(world, ending, "given-back")
    agent.claim(job)
    agent.report()
    ending.owner.release()
    assert not ending.owner.holds(world.job(job.id))
    other.sweep.run_once()
    assert world.job(job.id).owner == other.owner.id
    assert world.events(job.id)[-2:] == ["released", "adopted"]


def test_an_owner_that_comes_back_adopts_its_own_load_and_drops_nothing_of_it(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "own-again")
    agent.claim(job)
    agent.report()
    world.lapse(job.id)
    control.sweep.run_once()
    row = world.job(job.id)
    with pytest.raises(Replaced):
        control.owner.fail(job, "internal", "a step that began before", ended=False)
    control.owner.renew()
    assert control.owner.leases.held() == [(job.id, row.generation)]


def test_an_adoption_whose_answer_was_lost_is_found_by_the_row(world: World, agent: Agent) -> None:
    dead, other = Control(world), Control(world)
    job = placed_load(world, dead, "lost-adoption")
    agent.claim(job)
    agent.report()
    world.lapse(job.id)
    assert [row.id for row in world.jobs.adopt(other.owner.id, 100)] == [job.id]
    assert other.owner.leases.held() == []
    other.sweep.run_once()
    assert other.owner.leases.held() == [(job.id, world.job(job.id).generation)]


def test_lj_06_a_silent_load_of_a_dead_owner_is_failed_and_held_without_anybody_asking(
    world: World, agent: Agent
) -> None:
    dead, other = Control(world), Control(world)
    job = placed_load(world, dead, "lj-06")
    agent.claim(job)
    other.sweep.run_once()
    assert world.job(job.id).state == State.RUNNING, "nobody ends an attempt whose lease is valid"
    world.lapse(job.id)
    world.silence(job.id)
    other.sweep.run_once()
    row = world.job(job.id)
    assert (row.state, row.error_cause, row.stop_state) == (State.FAILED, "owner_lost", StopState.PENDING)
    held_s = ((row.hold_until or row.read_at) - row.read_at).total_seconds()
    assert world.windows.stop_s - 10 < held_s <= world.windows.stop_s
    assert world.loads.request("lj-06", "r1").state == "held"


def test_what_the_agent_said_last_is_truer_than_the_loss_of_the_owner(world: World, agent: Agent) -> None:
    dead, other = Control(world), Control(world)
    job = placed_load(world, dead, "said-last")
    agent.claim(job)
    agent.end(job, OperationError(cause="load_refused", message="not enough memory"))
    world.lapse(job.id)
    world.silence(job.id)
    other.sweep.run_once()
    row = world.job(job.id)
    assert (row.error_cause, row.error, row.stop_state) == ("load_refused", "not enough memory", StopState.CONFIRMED)


def test_work_that_lived_in_its_owner_is_requeued_a_few_times_and_then_fails(world: World) -> None:
    _, view = world.job_service.request(NewJob(kind=MODEL_INSTALL, subject="requeued"))
    generations = []
    for _ in range(3):
        control = Control(world)
        job = world.job(view.id)
        generations.append(job.generation)
        assert world.jobs.take(job.id, job.generation, control.owner.id) is not None
        world.lapse(view.id)
        Control(world).sweep.run_once()
    row = world.job(view.id)
    assert (row.state, row.attempts, row.error_cause) == (State.FAILED, 3, "owner_lost")
    assert generations == sorted(set(generations))


def test_two_sweeps_at_once_end_a_lapsed_job_once(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "two-sweeps")
    agent.claim(job)
    world.lapse(job.id)
    world.silence(job.id)
    runs = [in_thread(lambda: world.sweeps.lapse(100)) for _ in range(4)]
    for thread, _ in runs:
        thread.join(30)
    ended = [item.id for _, outcome in runs for item in outcome[0] if item.id == job.id]  # type: ignore[attr-defined]
    assert ended == [job.id]
    assert world.events(job.id).count("failed") == 1


def test_two_owners_at_once_adopt_a_load_once(world: World, agent: Agent) -> None:
    job = placed_load(world, Control(world), "two-adopters")
    agent.claim(job)
    agent.report()
    world.lapse(job.id)
    runs = [in_thread(lambda: Control(world).owner.adopt(100)) for _ in range(4)]
    for thread, _ in runs:
        thread.join(30)
    adopted = [item.id for _, outcome in runs for item in outcome[0] if item.id == job.id]  # type: ignore[attr-defined]
    assert adopted == [job.id]
    assert (world.job(job.id).adoptions, world.events(job.id).count("adopted")) == (1, 1)


def test_a_load_that_somebody_holds_at_the_moment_is_adopted_later_and_not_failed(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, Control(world), "held-row")
    agent.claim(job)
    agent.report()
    world.lapse(job.id)
    with world.holding("SELECT 1 FROM jobs WHERE id = %(id)s FOR UPDATE", id=job.id):
        control.sweep.run_once()
    with world.holding("SELECT 1 FROM subjects WHERE name = 'held-row' FOR UPDATE"):
        control.sweep.run_once()
    assert world.job(job.id).state == State.RUNNING
    control.sweep.run_once()
    assert world.job(job.id).owner == control.owner.id


def test_a_row_that_somebody_holds_is_skipped_and_costs_no_other_job_its_lease(world: World, agent: Agent) -> None:
    control = Control(world)
    frozen, healthy = placed_load(world, control, "frozen-row"), placed_load(world, control, "healthy-row")
    held = [(frozen.id, frozen.generation), (healthy.id, healthy.generation)]
    with world.holding("SELECT 1 FROM jobs WHERE id = %(id)s FOR UPDATE", id=frozen.id):
        answer = world.jobs.renew(control.owner.id, held)
    assert answer.renewed == {healthy.id}
    assert answer.untouched == {frozen.id}, "not renewed this time, and not lost either"
    assert world.jobs.renew(control.owner.id, held).renewed == {frozen.id, healthy.id}
    world.lapse(frozen.id)
    assert world.jobs.renew(control.owner.id, held) == type(answer)(frozenset({healthy.id}), frozenset())


def test_a_lapsed_lease_is_never_revived(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "never-revived")
    world.lapse(job.id)
    control.owner.renew()
    assert not control.owner.leases.valid(job.id, job.generation)
    row = world.job(job.id)
    assert row.lease_expires_at is not None and row.lease_expires_at < row.read_at


def test_pending_stops_are_sent_with_back_off_until_they_are_proven(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "stop-me")
    agent.claim(job)
    instance, _ = agent.become_ready(job)
    world.cancels.cancel(job.id)
    control.sweep.run_once()  # nobody listens on the node link
    first = world.job(job.id)
    assert first.stop_attempts == 1
    control.sweep.run_once()
    assert world.job(job.id).stop_attempts == 1, "its pause is not over"
    for attempt in range(2, 8):
        _overdue(world, job.id, "stop_next_at")
        control.sweep.run_once()
        assert world.job(job.id).stop_attempts == attempt
    row = world.job(job.id)
    assert row.stop_next_at is not None
    assert row.stop_next_at - row.read_at <= timedelta(seconds=world.windows.stop_retry_max_s)
    asked: list[dict[str, object]] = []

    def stop(payload: object) -> dict[str, object]:
        asked.append(payload)  # type: ignore[arg-type]
        return agent.obey(payload)  # type: ignore[arg-type]

    world.bus.serve(agent.id, "model.stop", stop)
    _overdue(world, job.id, "stop_next_at")
    control.sweep.run_once()
    assert world.job(job.id).stop_state == StopState.CONFIRMED
    assert asked[0]["process_instance"] == instance
    assert asked[0]["process_key"] == "stop-me#0"


def test_an_answer_of_an_older_incarnation_proves_nothing(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "old-answer")
    agent.claim(job)
    world.cancels.cancel(job.id)
    assert world.operation_rows.confirm_stop(job.id, job.op_generation or 0, agent.incarnation - 1, "test") is None
    assert world.operation_rows.confirm_stop(job.id, (job.op_generation or 0) + 1, agent.incarnation, "test") is None
    assert world.operation_rows.confirm_stop(job.id, job.op_generation or 0, agent.incarnation, "test") is not None


@pytest.mark.parametrize(
    ("column", "seconds", "cause"),
    [("op_seen_at", 200, "worker_silent"), ("placed_at", 3600, "budget_over"), ("started_at", 90_000, "budget_over")],
)
def test_a_bound_that_passed_ends_the_load_and_names_its_setting(
    world: World, agent: Agent, column: str, seconds: float, cause: str
) -> None:
    control = Control(world, budgets=Budgets())
    job = placed_load(world, control, f"bound-{column}")
    agent.claim(job)
    control.sweep.run_once()
    assert world.job(job.id).state == State.RUNNING
    _overdue(world, job.id, column, seconds)
    control.sweep.run_once()
    row = world.job(job.id)
    assert (row.state, row.error_cause, row.stop_state) == (State.FAILED, cause, StopState.PENDING)


def test_an_order_that_nobody_takes_fails_in_the_end_and_nothing_is_to_be_stopped(world: World, agent: Agent) -> None:
    control = Control(world)
    job = placed_load(world, control, "nobody-takes-it")
    _overdue(world, job.id, "placed_at", 200)
    control.sweep.run_once()
    row = world.job(job.id)
    assert (row.error_cause, row.stop_state) == ("worker_silent", StopState.CONFIRMED)
    assert world.replica("nobody-takes-it") is None


def test_a_take_whose_answer_was_lost_is_found_by_the_row(world: World, agent: Agent) -> None:
    control = Control(world)
    ticket = world.loads.request("lost-take", "r1")
    assert world.jobs.take(JobId(ticket.job_id), ticket.generation, control.owner.id) is not None
    control.sweep.run_once()
    assert world.job(ticket.job_id).op_state == OpState.SENT


def test_a_pass_without_a_database_ends_quietly_and_the_next_one_works(
    world: World, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control(world)
    ticket = world.loads.request("no-database", "r1")
    _overdue(world, ticket.job_id, "dispatch_expires_at")

    def gone(_: int) -> None:
        raise StorageUnavailable

    with monkeypatch.context() as broken:
        broken.setattr(world.sweeps, "lapse", gone)
        control.sweep.run_once()
    assert world.job(ticket.job_id).state == State.QUEUED
    control.sweep.run_once()
    assert world.job(ticket.job_id).state == State.RUNNING


def test_old_terminal_rows_are_pruned_but_not_pending_stops_and_makers_of_replicas(world: World, agent: Agent) -> None:
    control = Control(world)
    gone, stopping = placed_load(world, control, "old-gone"), placed_load(world, control, "old-stopping")
    control.owner.fail(gone, "internal", "x", ended=True)
    agent.claim(stopping)
    control.owner.fail(stopping, "internal", "x", ended=False)
    for job in (gone, stopping):
        _overdue(world, job.id, "finished_at", 100_000)
    world.sql("INSERT INTO subjects (kind, name) VALUES ('process', 'long-gone')")
    world.sweeps.prune(90_000, 1000)
    assert world.sql("SELECT name FROM subjects WHERE name IN ('long-gone', 'old-gone')") == [{"name": "old-gone"}]
    assert world.jobs.get(gone.id) is None
    assert world.jobs.get(stopping.id) is not None
