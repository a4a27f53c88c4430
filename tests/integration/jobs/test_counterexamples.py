"""The counterexamples of the job protocol whose rule lives in a statement, each forced by a lock or by the order of calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.attempts import Ending, end
from localai.jobs.event_rules import Cancel, Fail, Progress
from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import Answer, OpState, StopAnswer, StopOutcome
from localai.jobs.operations import WorkerMustDrop
from localai.jobs.ports import NewJob
from localai.loads.ports import NotFinished
from tests.integration.world import GIB, Agent, Control, World, in_thread, placed_load, plain_plan, serving_load, staged
from tests.loopback import eventually

pytestmark = pytest.mark.integration


def _cancel_in(world: World, uow: object, job: Job) -> None:
    ending = Ending(move=Cancel, guard="cancel", to=State.CANCELLED, cause="cancelled", error="cancelled")
    assert end(uow, world.windows, job.id, ending, actor="test") is not None  # type: ignore[arg-type]


def test_c1_a_message_that_arrives_after_the_load_failed_and_the_agent_restarted_starts_nothing(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "c1")
    control.owner.fail(job, "budget_over", "too long", ended=False)
    assert world.job(job.id).stop_state == StopState.CONFIRMED, "never claimed: the claim guard keeps it from starting"
    again = Agent(world, agent.name)
    with pytest.raises(WorkerMustDrop) as refused:
        again.claim(job)
    assert refused.value.state == "failed"


def test_c1_a_claim_of_an_older_incarnation_is_refused(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "c1-old")
    Agent(world, agent.name)
    with pytest.raises(Replaced):
        agent.claim(job)
    assert world.job(job.id).node_incarnation is None


def test_c1_a_claim_waits_for_a_registration_under_way_and_is_then_refused(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "c1-race")
    with world.unit_of_work() as uow:
        uow.execute("UPDATE nodes SET incarnation = incarnation + 1 WHERE id = %(id)s", {"id": agent.id})
        claiming, outcome = in_thread(lambda: agent.claim(job))
        eventually(world.waiting_for_a_lock, "the claim at the node's row")
    claiming.join(30)
    assert isinstance(outcome[0], Replaced)
    assert world.job(job.id).node_incarnation is None


def test_a_claim_is_idempotent_for_one_incarnation_and_refuses_another_operation(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "claim-twice")
    assert agent.claim(job) == agent.claim(job)
    assert world.events(job.id).count("claimed") == 1
    with pytest.raises(WorkerMustDrop):
        agent.claim(replace(job, op_generation=(job.op_generation or 0) + 1))


def test_c2_a_report_made_before_the_claim_does_not_prove_that_the_operation_is_gone(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "c2")
    early = agent.build()
    agent.claim(job)
    world.cancels.cancel(job.id)
    assert world.job(job.id).stop_state == StopState.PENDING
    agent.send(early)
    assert world.job(job.id).stop_state == StopState.PENDING, "the operation was entered after that report was made"
    answer = agent.report()
    assert [item.answer for item in answer.operations] == [Answer.STOP]
    agent.forget(job)
    agent.report()
    assert world.job(job.id).stop_state == StopState.CONFIRMED


def test_c4_no_answer_prolongs_an_operation_whose_row_is_over(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "c4")
    agent.claim(job)
    assert agent.report().operations[0].answer is Answer.KEEP
    world.lapse(job.id)
    assert agent.report().operations[0].answer is Answer.WAIT
    world.silence(job.id)
    control.sweep.run_once()
    assert agent.report().operations[0].answer is Answer.STOP
    assert agent.report().operations[0].answer is Answer.STOP, "doomed is for ever"


def test_c5_an_owner_whose_local_lease_is_over_sends_nothing(world: World, agent: Agent) -> None:
    now = [0.0]
    owner = Control(world, clock=lambda: now[0])
    asked: list[object] = []
    world.bus.serve(agent.id, "model.stop", lambda payload: asked.append(payload) or {})
    job = placed_load(world, owner, "c5")
    agent.claim(job)
    agent.become_ready(job)
    now[0] += world.windows.lease_s + 1
    owner.sweep.run_once()
    owner.step(job.id)
    with pytest.raises(Replaced):
        owner.owner.fail(job, "budget_over", "it believes so", ended=False)
    row = world.job(job.id)
    assert (row.state, row.op_state, row.stop_state) == (State.RUNNING, OpState.READY, StopState.NONE)
    assert asked == []


def test_c6_an_owner_whose_answer_to_a_success_was_lost_reads_again(
    world: World, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control(world)
    job = placed_load(world, control, "c6")
    agent.claim(job)
    instance, _ = agent.become_ready(job)
    commit = world.load_rows.finish

    def lost(*arguments: object) -> Job | NotFinished:
        commit(*arguments)  # type: ignore[arg-type]
        raise StorageUnavailable

    monkeypatch.setattr(world.load_rows, "finish", lost)
    assert control.step(job.id).state == State.SUCCEEDED
    monkeypatch.undo()
    control.step(job.id)
    control.sweep.run_once()
    row = world.job(job.id)
    assert (row.state, row.stop_state) == (State.SUCCEEDED, StopState.NONE)
    assert agent.report().operations[0].answer is Answer.COMPLETE
    assert [item.process_instance for item in world.replicas.routing_snapshot().replicas if item.model == "c6"] == [
        instance
    ]


def test_c7_a_ready_process_of_a_dead_attempt_is_stopped_by_the_answer_and_the_stop_outlives_the_hold(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "c7")
    agent.claim(job)
    agent.become_ready(job)
    world.cancels.cancel(job.id)
    world.end_hold(job.id)
    world.sql("UPDATE jobs SET stop_next_at = clock_timestamp() WHERE id = %(id)s", id=job.id)
    requests: list[dict[str, object]] = []

    def stop(payload: object) -> dict[str, object]:
        requests.append(payload)  # type: ignore[arg-type]
        return StopAnswer(outcome=StopOutcome.NOT_MINE, incarnation=agent.incarnation).to_json()

    world.bus.serve(agent.id, "model.stop", stop)
    control.sweep.run_once()
    assert len(requests) == 1, "stops are sent after the hold too"
    assert world.job(job.id).stop_state == StopState.PENDING, "an answer that is no proof confirms nothing"
    assert agent.report().operations[0].answer is Answer.STOP
    agent.end(job)
    assert world.job(job.id).stop_state == StopState.CONFIRMED


def test_c7_a_process_that_no_row_owns_becomes_a_cleanup_job_and_its_end_finishes_the_job(
    world: World, control: Control, agent: Agent
) -> None:
    job, agent, instance = serving_load(world, control, [agent], "c7-orphan")
    world.sql("DELETE FROM replicas WHERE job_id = %(id)s", id=job.id)
    assert agent.report().stop_processes == (), "the job is committed first"
    answer = agent.report()
    assert answer.stop_processes == (instance,)
    (cleanup,) = [item for item in world.job_service.list() if item.subject == instance]
    assert (cleanup.kind, cleanup.state) == ("replica.cleanup", "queued")
    del agent.processes[instance]
    assert agent.report().stop_processes == ()
    assert world.job(cleanup.id).state == State.SUCCEEDED


def test_c8_an_old_ready_of_a_restarted_agent_is_not_committed(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "c8")
    agent.claim(job)
    agent.become_ready(job)
    stale = world.job(job.id)
    with world.holding("SELECT 1 FROM subjects WHERE kind = 'model' AND name = 'c8' FOR UPDATE"):
        finishing, outcome = in_thread(lambda: world.load_rows.finish(stale, control.owner.id))
        eventually(world.waiting_for_a_lock, "the finish at the subject's lock")
        Agent(world, agent.name)
    finishing.join(30)
    assert outcome == [NotFinished.REPLACED]
    row = world.job(job.id)
    assert (row.state, row.error_cause, row.stop_state) == (State.FAILED, "worker_restarted", StopState.CONFIRMED)
    assert world.replica("c8") is None


def test_c8_finish_compares_the_incarnation_itself(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "c8-alone")
    agent.claim(job)
    agent.become_ready(job)
    world.sql("UPDATE nodes SET incarnation = incarnation + 1 WHERE id = %(id)s", id=agent.id)
    assert control.step(job.id).error_cause == "worker_restarted"
    assert world.replica("c8-alone") is None


def test_c9_a_load_that_is_being_cancelled_never_becomes_routable(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "c9")
    agent.claim(job)
    agent.become_ready(job)
    stale = world.job(job.id)
    with world.unit_of_work() as uow:
        _cancel_in(world, uow, job)
        finishing, outcome = in_thread(lambda: world.load_rows.finish(stale, control.owner.id))
        eventually(world.waiting_for_a_lock, "the finish at the job's row")
    finishing.join(30)
    assert outcome == [NotFinished.REPLACED]
    replica = world.replica("c9")
    assert replica is not None and replica["state"] == "unloading"
    assert world.job(job.id).state == State.CANCELLED


def test_c9_a_lapsed_lease_cannot_finish(world: World, control: Control, agent: Agent) -> None:
    job = placed_load(world, control, "c9-lapsed")
    agent.claim(job)
    agent.become_ready(job)
    world.lapse(job.id)
    assert world.load_rows.finish(world.job(job.id), control.owner.id) is NotFinished.REPLACED
    assert world.job(job.id).state == State.RUNNING


def test_c13_a_replaced_owner_cannot_renew_progress_finish_or_fail(world: World) -> None:
    first, second = Control(world), Control(world)
    _, job = world.job_service.request(NewJob(kind=MODEL_INSTALL, subject="c13"))
    taken = world.jobs.take(JobId(job.id), job.generation, first.owner.id)
    assert taken is not None
    world.lapse(job.id)
    world.sweeps.lapse(100)
    requeued = world.job(job.id)
    assert (requeued.state, requeued.owner) == (State.QUEUED, None)
    assert requeued.generation > taken.generation
    again = world.jobs.take(requeued.id, requeued.generation, second.owner.id)
    assert again is not None
    fence = {"generation": taken.generation, "owner": first.owner.id}
    assert world.jobs.renew(first.owner.id, [(taken.id, taken.generation)]).renewed == frozenset()
    assert world.jobs.progress(taken.id, Progress(**fence)) is None
    assert world.jobs.finish(taken.id, taken.generation, first.owner.id) is None
    assert world.jobs.fail(taken.id, Fail(**fence, cause="internal", error="late", ended=True)) is None
    assert world.jobs.take(taken.id, taken.generation, first.owner.id) is None
    row = world.job(job.id)
    assert (row.state, row.owner, row.generation) == (State.RUNNING, second.owner.id, again.generation)


def test_c13_an_owner_whose_load_was_adopted_cannot_renew_finish_or_fail_it(world: World, agent: Agent) -> None:
    first, second = Control(world), Control(world)
    job = placed_load(world, first, "c13-adopted")
    agent.claim(job)
    agent.become_ready(job)
    ready = world.job(job.id)
    world.lapse(job.id)
    (adopted,) = [one for one in second.owner.adopt(100) if one.id == job.id]
    assert first.owner.leases.valid(job.id, job.generation), "it was suspended between its check and its statement"
    assert world.load_rows.finish(ready, first.owner.id) is NotFinished.REPLACED
    event = Fail(generation=job.generation, owner=first.owner.id, cause="x", error="late", ended=True)
    assert world.jobs.fail(job.id, event) is None
    assert world.jobs.renew(first.owner.id, [(job.id, job.generation)]).renewed == frozenset()
    row = world.job(job.id)
    assert (row.state, row.owner, row.generation) == (State.RUNNING, second.owner.id, adopted.generation)
    assert second.step(job.id).state == State.SUCCEEDED


def test_c13_an_owner_suspended_between_its_check_and_its_statement_changes_nothing(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "c13-suspended")
    agent.claim(job)
    assert control.owner.leases.valid(job.id, job.generation)
    world.lapse(job.id)
    world.silence(job.id)
    control.sweep.run_once()
    world.end_hold(job.id)
    agent.end(job)
    newer = world.loads.request("c13-suspended", "r1")
    assert newer.state == "created"
    event = Fail(generation=job.generation, owner=control.owner.id, cause="x", error="late", ended=True)
    assert world.jobs.fail(job.id, event) is None
    assert world.jobs.fail(JobId(newer.job_id), event) is None
    assert world.job(newer.job_id).state == State.QUEUED


def test_c14_memory_and_slot_stay_taken_when_the_hold_ends_before_the_stop_is_proven(
    world: World, control: Control, agent: Agent
) -> None:
    world.sql(
        "UPDATE nodes SET total_ram = %(n)s, available_ram = %(n)s, last_heartbeat = clock_timestamp() "
        "WHERE id = %(id)s",
        n=10 * GIB,
        id=agent.id,
    )
    for model in ("c14", "c14-other"):
        world.plans.plans[model] = plain_plan(model, files=staged(6 * GIB))
    job = placed_load(world, control, "c14")
    agent.claim(job)
    control.owner.fail(job, "worker_silent", "quiet", ended=False)
    world.end_hold(job.id)
    other = control.step(world.loads.request("c14-other", "r1").job_id)
    assert (other.state, other.error_cause) == (State.RUNNING, None), "something is being stopped: room may appear"
    assert other.op_generation is None
    world.sql("UPDATE jobs SET started_at = started_at - interval '1 hour' WHERE id = %(id)s", id=other.id)
    other = control.step(other.id)
    assert other.error_cause == "no_room"
    assert "promised to other loads" in (other.error or "")
    again = world.loads.request("c14", "r1")
    assert again.state == "created"
    assert world.job(again.job_id).slot == 1, "the slot whose stop is pending is taken"
    agent.end(job)
    world.end_hold(other.id)
    assert control.step(world.loads.request("c14-other", "r1").job_id).op_state == OpState.SENT


def test_c21_a_load_whose_revision_was_edited_before_its_finish_is_not_routed(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "c21")
    agent.claim(job)
    agent.become_ready(job)
    with world.unit_of_work() as uow:
        uow.execute("SELECT 1 FROM subjects WHERE kind = 'model' AND name = 'c21' FOR UPDATE")
        finishing, _ = in_thread(lambda: control.step(job.id))
        eventually(world.waiting_for_a_lock, "the finish at the subject's lock")
        uow.execute("UPDATE subjects SET revision = 'r2' WHERE kind = 'model' AND name = 'c21'")
    finishing.join(30)
    row = world.job(job.id)
    assert (row.state, row.error_cause, row.stop_state) == (State.FAILED, "revision_changed", StopState.PENDING)
    assert [item for item in world.replicas.routing_snapshot().replicas if item.model == "c21"] == []


def test_i10_a_cancel_and_a_finish_at_once_leave_one_terminal_event(
    world: World, control: Control, agent: Agent
) -> None:
    for round_number in range(5):
        model = f"i10-{round_number}"
        job = placed_load(world, control, model)
        agent.claim(job)
        instance, _ = agent.become_ready(job)
        finishing, _ = in_thread(lambda job=job: control.step(job.id))  # type: ignore[misc]
        cancelling, _ = in_thread(lambda job=job: world.cancels.end(job.id, "api"))  # type: ignore[misc]
        finishing.join(30)
        cancelling.join(30)
        names = world.events(job.id)
        ended = [name for name in names if name in ("succeeded", "failed", "cancelled")]
        assert len(ended) == 1, names
        serves = any(item.model == model for item in world.replicas.routing_snapshot().replicas)
        assert serves == (ended == ["succeeded"])
        agent.end(job) if not serves else agent.forget(job)
        if serves:
            del agent.processes[instance]
            agent.report()


def test_i1_a_crowd_of_first_requests_makes_one_attempt(world: World) -> None:
    threads = [in_thread(lambda: world.loads.request("i1", "r1")) for _ in range(16)]
    for thread, _ in threads:
        thread.join(60)
    tickets = [outcome[0] for _, outcome in threads]
    assert {ticket.job_id for ticket in tickets} == {tickets[0].job_id}  # type: ignore[attr-defined]
    assert sorted(ticket.state for ticket in tickets).count("created") == 1  # type: ignore[attr-defined]
