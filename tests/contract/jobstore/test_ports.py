"""What every store of jobs promises: fences, holds, proofs. Each promise is one that the simulator leans on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localai.errors import NotTheNextLife
from localai.ids import JobId, NodeId, OwnerId, new_id
from localai.jobs.event_rules import Fail
from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import MODEL_INSTALL, MODEL_LOAD, MODEL_UNLOAD, REPLICA_CLEANUP
from localai.jobs.operation_rules import Answer, OperationReport, OpState, Phase, ProcessReport, Report
from localai.jobs.ports import Intake, NewJob
from localai.jobs.report_rules import answer
from localai.loads.ports import NotFinished, NotPlaced, Reservation
from localai.models.revision_rules import Evidence, Standing
from localai.nodes.admission_rules import Terms
from localai.nodes.rules import Registration
from localai.nodes.store import Refused
from localai.placement.rules import Placement
from tests.contract.jobstore.stores import TERMS, WINDOWS, Stores

pytestmark = pytest.mark.contract
ME, OTHER = OwnerId("control-me"), OwnerId("control-other")


def _taken(stores: Stores, model: str = "m") -> Job:
    stores.loads.revise(model, "r1")
    _, job = stores.loads.request(model, "r1")
    taken = stores.jobs.take(job.id, job.generation, ME)
    assert taken is not None
    return taken


def _placed(stores: Stores, node: NodeId, model: str = "m") -> Job:
    job = _taken(stores, model)
    placed = stores.loads.place(job, ME, lambda _: Placement(node_id=node, node_name="n"), _reservation())
    assert isinstance(placed, Job), placed
    return placed


def _reservation() -> Reservation:
    return Reservation(backend="fault", reserved_bytes=7, order={"n": 1})


def _claimed(stores: Stores, node: NodeId, incarnation: int, model: str = "m") -> Job:
    job = _placed(stores, node, model)
    result = stores.operations.claim(node, incarnation, job.id, job.op_generation or 0, 0)
    assert result.granted and result.job is not None
    return result.job


def _report(incarnation: int, seq: int, job: Job | None = None, state: OpState = OpState.CLAIMED) -> Report:
    if job is None:
        return Report(incarnation=incarnation, seq=seq)
    ready = state is OpState.READY
    operation = OperationReport(
        job_id=job.id,
        op_generation=job.op_generation or 0,
        op_state=state,
        phase=Phase.LOADING,
        process_instance=_instance(job) if ready else None,
        address="127.0.0.1:1" if ready else None,
        identity="m" if ready else None,
    )
    process = ProcessReport(
        process_instance=_instance(job),
        model=job.subject,
        slot=job.slot,
        job_id=job.id,
        op_generation=job.op_generation or 0,
        address="127.0.0.1:1",
        pid=1,
        ready=ready,
    )
    return Report(incarnation=incarnation, seq=seq, operations=(operation,), processes=(process,) if ready else ())


def _instance(job: Job) -> str:
    return job.id  # any uuid will do


def test_one_of_many_takers_wins(stores: Stores) -> None:
    _, job = stores.loads.request("m", "r1")
    assert stores.jobs.take(job.id, job.generation, ME) is not None
    assert stores.jobs.take(job.id, job.generation, OTHER) is None
    assert stores.job(job.id).owner == ME


def test_a_second_request_attaches_and_a_held_one_waits(stores: Stores) -> None:
    job = _taken(stores)
    assert stores.loads.request("m", "r1")[0] is Intake.LIVE
    assert [ended.id for ended in stores.cancels.cancel(job.id, "api")] == [job.id]
    assert stores.loads.request("m", "r1")[0] is Intake.HELD
    stores.let_pass(WINDOWS.report_s + 1)
    outcome, again = stores.loads.request("m", "r1")
    assert outcome is Intake.CREATED and again.generation > job.generation


def test_a_lapsed_lease_is_never_renewed_and_ends_the_attempt_once(stores: Stores) -> None:
    job = _placed(stores, stores.register("n")[0])
    assert job.id in stores.jobs.renew(ME, [(job.id, job.generation)]).renewed
    stores.let_pass(WINDOWS.lease_s + 1)
    assert stores.jobs.renew(ME, [(job.id, job.generation)]).renewed == frozenset()
    assert [ended.id for ended in stores.sweeps.lapse(100)] == [job.id]
    assert stores.sweeps.lapse(100) == []
    assert [row.event for row in stores.jobs.events(job.id)] == ["requested", "taken", "placed", "failed"]


def _lost(stores: Stores, node: NodeId, incarnation: int, *, seq: int, state: OpState = OpState.CLAIMED) -> Job:
    """A load whose owner is lost, and of which its agent has just spoken."""
    job = _claimed(stores, node, incarnation)
    stores.let_pass(WINDOWS.lease_s + 1)
    stores.operations.report(node, _report(incarnation, seq, job, state))
    return stores.job(job.id)


def test_a_load_whose_agent_was_heard_of_goes_on_under_a_new_owner_and_generation(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    lost = _lost(stores, node, incarnation, seq=1)
    assert stores.sweeps.lapse(100) == [], "it is left to whoever adopts it"
    (adopted,) = stores.jobs.adopt(OTHER, 100)
    assert (adopted.id, adopted.owner, adopted.adoptions, adopted.state) == (lost.id, OTHER, 1, State.RUNNING)
    assert adopted.generation > lost.generation and adopted.op_generation == lost.op_generation
    assert adopted.lease_valid(adopted.read_at)
    assert stores.jobs.adopt(ME, 100) == [], "one of many wins"
    (row,) = [row for row in stores.jobs.events(lost.id) if row.event == "adopted"]
    assert (row.actor, row.generation, row.detail) == (OTHER, adopted.generation, {"lost_owner": ME})


def test_an_adopted_load_is_renewed_for_its_agent_and_finished_by_its_new_owner_only(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    lost = _lost(stores, node, incarnation, seq=1)
    stores.jobs.adopt(OTHER, 100)
    seen = _report(incarnation, 2, lost, OpState.READY)
    rows = stores.operations.report(node, seen).rows
    assert answer(seen.operations[0], node, incarnation, rows[lost.id]) is Answer.KEEP
    assert stores.jobs.renew(ME, [(lost.id, lost.generation)]).renewed == frozenset()
    assert stores.loads.finish(lost, ME) is NotFinished.REPLACED
    event = Fail(generation=lost.generation, owner=ME, cause="x", error="x", ended=False)
    assert stores.jobs.fail(lost.id, event) is None
    assert isinstance(stores.loads.finish(stores.job(lost.id), OTHER), Job)
    assert [row["state"] for row in stores.replica_rows()] == ["loaded"]


def test_a_load_that_was_ready_when_its_owner_was_lost_is_adopted_and_served(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    lost = _lost(stores, node, incarnation, seq=1, state=OpState.READY)
    (adopted,) = stores.jobs.adopt(OTHER, 100)
    assert isinstance(stores.loads.finish(adopted, OTHER), Job)
    assert stores.job(lost.id).state == State.SUCCEEDED


def test_a_load_that_was_not_sent_yet_is_adopted_and_placed_under_the_new_generation(stores: Stores) -> None:
    node, _ = stores.register("n")
    job = _taken(stores)
    stores.let_pass(WINDOWS.lease_s + 1)
    (adopted,) = stores.jobs.adopt(OTHER, 100)
    placed = stores.loads.place(adopted, OTHER, lambda _: Placement(node_id=node, node_name="n"), _reservation())
    assert isinstance(placed, Job)
    assert placed.op_generation == adopted.generation > job.generation


def test_without_a_fresh_report_a_lost_load_fails_and_is_held(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.let_pass(WINDOWS.lease_s + 1)
    assert stores.jobs.adopt(OTHER, 100) == []
    (failed,) = stores.sweeps.lapse(100)
    assert (failed.id, failed.error_cause, failed.stop_state) == (job.id, "owner_lost", StopState.PENDING)


def test_an_owner_that_ends_gives_back_what_another_one_can_go_on_with(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    working, unclaimed = _claimed(stores, node, incarnation), _placed(stores, node, "other")
    _, install = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))
    stores.jobs.take(install.id, install.generation, ME)
    released = {job.id for job in stores.jobs.release(ME)}
    assert released == {working.id, install.id}, "what would fail keeps its lease: its agent may still claim it"
    assert stores.jobs.release(ME) == []
    assert stores.jobs.renew(ME, [(working.id, working.generation)]).renewed == frozenset(), "it is given back for good"
    assert [job.id for job in stores.jobs.adopt(OTHER, 100)] == [working.id]
    assert [(job.id, job.state) for job in stores.sweeps.lapse(100)] == [(install.id, State.QUEUED)]
    assert stores.job(unclaimed.id).owner == ME


def test_with_adoption_off_an_owner_that_ends_keeps_the_leases_of_its_loads(without_adoption: Stores) -> None:
    node, incarnation = without_adoption.register("n")
    _claimed(without_adoption, node, incarnation)
    assert without_adoption.jobs.release(ME) == []


def test_an_order_that_nobody_claimed_is_not_adopted(stores: Stores) -> None:
    node, _ = stores.register("n")
    job = _placed(stores, node)
    stores.let_pass(WINDOWS.lease_s + 1)
    assert stores.jobs.adopt(OTHER, 100) == []
    (failed,) = stores.sweeps.lapse(100)
    assert (failed.id, failed.stop_state) == (job.id, StopState.CONFIRMED)


def test_a_valid_lease_is_not_taken_away(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.operations.report(node, _report(incarnation, 1, job))
    assert stores.jobs.adopt(OTHER, 100) == []
    assert stores.job(job.id).owner == ME


def test_a_load_is_adopted_three_times_and_no_more(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    for seq in (1, 2, 3, 4):
        stores.let_pass(WINDOWS.lease_s + 1)
        stores.operations.report(node, _report(incarnation, seq, job))
        assert len(stores.jobs.adopt(OTHER, 100)) == (seq < 4)
    (failed,) = stores.sweeps.lapse(100)
    assert (failed.error_cause, failed.adoptions) == ("owner_lost", 3)


def test_owners_that_gave_a_load_back_are_none_that_it_lost(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job, owner, seq = _claimed(stores, node, incarnation), ME, 0
    for lost in (0, 3):
        for _ in range(5):
            assert [row.id for row in stores.jobs.release(owner)] == [job.id]
            assert stores.sweeps.lapse(100) == [], "it is left to whoever adopts it"
            owner = OTHER if owner == ME else ME
            (adopted,) = stores.jobs.adopt(owner, 100)
            assert (adopted.owner, adopted.adoptions, adopted.given_back) == (owner, lost, False)
        for _ in range(3 - lost):
            seq += 1
            stores.let_pass(WINDOWS.lease_s + 1)
            stores.operations.report(node, _report(incarnation, seq, job))
            assert len(stores.jobs.adopt(owner, 100)) == 1
    stores.let_pass(WINDOWS.lease_s + 1)
    stores.operations.report(node, _report(incarnation, 4, job))
    assert stores.jobs.adopt(owner, 100) == [], "three were lost before"
    (failed,) = stores.sweeps.lapse(100)
    assert (failed.error_cause, failed.adoptions) == ("owner_lost", 3)


def test_owners_that_gave_an_install_back_are_none_that_it_lost(stores: Stores) -> None:
    _, job = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))
    ends: list[State] = []
    for gives_back in (True, True, False, False, True, True, False):
        taken = stores.jobs.take(job.id, stores.job(job.id).generation, ME)
        assert taken is not None
        if gives_back:
            assert [row.id for row in stores.jobs.release(ME)] == [job.id]
        stores.let_pass(0 if gives_back else WINDOWS.lease_s + 1)
        (moved,) = stores.sweeps.lapse(100)
        ends.append(moved.state)
    assert ends == [State.QUEUED] * 6 + [State.FAILED]
    assert stores.job(job.id).attempts == 3


@pytest.mark.parametrize("sent", [True, False])
def test_with_adoption_off_every_lost_load_fails(without_adoption: Stores, sent: bool) -> None:
    node, incarnation = without_adoption.register("n")
    job = _lost(without_adoption, node, incarnation, seq=1) if sent else _taken(without_adoption)
    without_adoption.let_pass(0 if sent else WINDOWS.lease_s + 1)
    assert without_adoption.jobs.adopt(OTHER, 100) == []
    (failed,) = without_adoption.sweeps.lapse(100)
    assert (failed.id, failed.error_cause) == (job.id, "owner_lost")
    assert failed.stop_state == (StopState.PENDING if sent else StopState.CONFIRMED)


def test_work_that_lived_in_its_owner_goes_to_the_next_one_under_a_new_generation(stores: Stores) -> None:
    _, job = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))
    stores.jobs.take(job.id, job.generation, ME)
    stores.let_pass(WINDOWS.lease_s + 1)
    (queued,) = stores.sweeps.lapse(100)
    assert (queued.state, queued.generation > job.generation) == (State.QUEUED, True)
    assert stores.jobs.finish(job.id, job.generation, ME) is None
    assert stores.jobs.take(job.id, job.generation, ME) is None


def test_a_slot_whose_stop_is_pending_stays_taken_after_the_hold(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    event = Fail(generation=job.generation, owner=ME, cause="x", error="x", ended=False)
    failed = stores.jobs.fail(job.id, event)
    assert failed is not None and failed.stop_state == StopState.PENDING
    stores.let_pass(WINDOWS.stop_s + 1)
    _, again = stores.loads.request("m", "r1")
    assert again.slot == 1
    taken = stores.jobs.take(again.id, again.generation, ME)
    assert taken is not None
    same_slot = replace(taken, slot=0)
    choose = lambda _: Placement(node_id=node, node_name="n")  # noqa: E731
    assert stores.loads.place(same_slot, ME, choose, _reservation()) is NotPlaced.SLOT_TAKEN
    assert stores.job(again.id).op_generation is None, "a placement that failed has left nothing"


def test_proof_of_the_end_shortens_the_hold_and_frees_the_slot(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.cancels.cancel(job.id, "api")
    assert stores.operations.confirm_stop(job.id, job.op_generation or 0, incarnation - 1, "node:x") is None
    confirmed = stores.operations.confirm_stop(job.id, job.op_generation or 0, incarnation, "node:x")
    assert confirmed is not None and confirmed.hold_until is not None and confirmed.finished_at is not None
    assert (confirmed.hold_until - confirmed.finished_at).total_seconds() < WINDOWS.report_s + 5
    assert stores.replica_rows() == []
    assert stores.cancels.cancel(job.id, "api") == [], "a repeat touches nothing"


def test_a_cancel_ends_first_what_only_serves_the_job(stores: Stores) -> None:
    _, load = stores.loads.request("m", "r1")
    _, install = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m", parent_id=load.id))
    _, other = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="other"))
    ended = stores.cancels.cancel(load.id, "api")
    assert [(job.id, job.state, job.error_cause) for job in ended] == [
        (install.id, State.CANCELLED, "cancelled"),
        (load.id, State.CANCELLED, "cancelled"),
    ]
    assert stores.job(other.id).live
    assert stores.cancels.cancel(load.id, "api") == []


def test_a_cancel_leaves_what_serves_another_live_job_too(stores: Stores) -> None:
    loads = [stores.jobs.request(NewJob(kind=MODEL_LOAD, subject="m", slot=slot))[1] for slot in range(2)]
    _, install = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))
    assert [job.id for job in stores.cancels.cancel(loads[0].id, "api")] == [loads[0].id]
    assert stores.job(install.id).live
    assert [job.id for job in stores.cancels.cancel(loads[1].id, "api")] == [install.id, loads[1].id]


def test_what_only_serves_a_job_does_not_begin_once_that_has_ended(stores: Stores) -> None:
    _, load = stores.loads.request("m", "r1")
    stores.cancels.cancel(load.id, "api")
    outcome, parent = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m", parent_id=load.id))
    assert (outcome, parent.id, parent.state) == (Intake.ORPHAN, load.id, State.CANCELLED)
    assert [job.kind for job in stores.job_rows()] == [MODEL_LOAD]
    assert stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))[0] is Intake.CREATED, "it serves no load"


def test_what_must_be_done_begins_whatever_became_of_its_parent(stores: Stores) -> None:
    _, load = stores.loads.request("m", "r1")
    stores.cancels.cancel(load.id, "api")
    new = NewJob(kind=REPLICA_CLEANUP, subject=new_id(), node_id=stores.register("n")[0], parent_id=load.id)
    assert stores.jobs.request(new)[0] is Intake.CREATED


def test_a_cancel_of_what_serves_ends_it_alone(stores: Stores) -> None:
    _, load = stores.loads.request("m", "r1")
    _, install = stores.jobs.request(NewJob(kind=MODEL_INSTALL, subject="m"))
    assert [job.id for job in stores.cancels.cancel(install.id, "api")] == [install.id]
    assert stores.job(load.id).live


def test_a_cancelled_unload_holds_nothing_and_another_may_begin_at_once(stores: Stores) -> None:
    new = NewJob(kind=MODEL_UNLOAD, subject="m", args={"replicas": []})
    _, job = stores.jobs.request(new)
    (cancelled,) = stores.cancels.cancel(job.id, "test")
    assert (cancelled.state, cancelled.stop_state, cancelled.hold_until) == (
        State.CANCELLED,
        StopState.CONFIRMED,
        None,
    )
    assert "running requests are not cut" in (stores.job(job.id).error or "")
    assert stores.cancels.cancel(job.id, "test") == []
    outcome, again = stores.jobs.request(new)
    assert (outcome, again.id != job.id) == (Intake.CREATED, True)


def test_a_report_of_the_claiming_life_moves_the_row_and_a_late_one_does_not(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.operations.report(node, _report(incarnation, 2, job, OpState.READY))
    assert stores.job(job.id).op_state == OpState.READY
    stores.operations.report(node, _report(incarnation, 1, job, OpState.ENDED))
    assert stores.job(job.id).op_state == OpState.READY
    assert stores.operations.report(node, _report(incarnation - 1, 9)).current_incarnation is False


def test_three_reports_without_a_claimed_operation_end_it(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    for seq in (1, 2, 3):
        assert stores.job(job.id).op_state == OpState.CLAIMED
        stores.operations.report(node, _report(incarnation, seq))
    assert stores.job(job.id).op_state == OpState.ENDED


def test_a_finished_load_is_routable_and_its_process_s_end_takes_the_row(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.operations.report(node, _report(incarnation, 1, job, OpState.READY))
    version = stores.replicas.routing_version()
    assert isinstance(stores.loads.finish(stores.job(job.id), ME), Job)
    assert [row.model for row in stores.replicas.routing_snapshot().replicas] == ["m"]
    assert stores.replicas.routing_version() == version + 1
    assert stores.loads.request("m", "r1")[0] is Intake.LOADED
    stores.operations.report(node, _report(incarnation, 2))
    assert stores.replica_rows() == []


@pytest.mark.parametrize("secret", ["a-secret-of-a-process", None])
def test_the_secret_of_a_process_is_routed_with_it_and_stands_in_no_job_or_event(
    stores: Stores, secret: str | None
) -> None:
    """Null is a process of an earlier agent."""
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    ready = _report(incarnation, 1, job, OpState.READY)
    told = replace(ready, operations=(replace(ready.operations[0], process_secret=secret),))
    stores.operations.report(node, told)
    # A later report of an agent may leave it out.
    stores.operations.report(node, replace(ready, seq=2))
    assert isinstance(stores.loads.finish(stores.job(job.id), ME), Job)
    (routed,) = stores.replicas.routing_snapshot().replicas
    assert routed.process_secret == secret
    rows = [stores.job(job.id), *(event.detail for event in stores.jobs.events(job.id))]
    assert secret is None or secret not in str(rows)


def test_a_process_that_serves_no_more_leaves_routing_at_once_and_keeps_its_row_until_it_has_ended(
    stores: Stores,
) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.operations.report(node, _report(incarnation, 1, job, OpState.READY))
    assert isinstance(stores.loads.finish(stores.job(job.id), ME), Job)
    (routed,) = stores.replicas.routing_snapshot().replicas
    version = stores.replicas.routing_version()
    process = ProcessReport(
        process_instance=routed.process_instance,
        model="m",
        slot=routed.slot,
        job_id=job.id,
        op_generation=stores.job(job.id).op_generation or 0,
        address=routed.address,
        pid=7,
        ready=True,
    )
    serves = Report(incarnation=incarnation, seq=2, processes=(process,))
    assert not stores.operations.report(node, serves).routing_changed
    ending = replace(serves, seq=3, processes=(replace(process, ready=False),))
    assert stores.operations.report(node, ending).routing_changed
    assert stores.replicas.routing_snapshot().replicas == ()
    assert stores.replicas.routing_version() == version + 1
    assert [row["state"] for row in stores.replica_rows()] == ["unloading"]
    assert not stores.operations.report(node, replace(ending, seq=4)).routing_changed
    assert stores.loads.request("m", "r1")[0] is Intake.CREATED, "another replica may be loaded beside it"
    stores.operations.report(node, Report(incarnation=incarnation, seq=5))
    assert "unloading" not in [row["state"] for row in stores.replica_rows()]


def test_a_load_of_another_revision_or_life_is_not_finished(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.operations.report(node, _report(incarnation, 1, job, OpState.READY))
    ready = stores.job(job.id)
    stores.loads.revise("m", "r2")
    assert stores.loads.finish(ready, ME) is NotFinished.OTHER_REVISION
    stores.register("n")
    assert stores.loads.finish(ready, ME) is NotFinished.REPLACED
    assert stores.job(job.id).error_cause == "worker_restarted"


def test_a_revision_comes_into_force_with_a_proof_only(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    assert stores.loads.revise("m", "r1", Evidence(was="r0")) is Standing.NEVER_SERVED
    assert stores.loads.revisions(["m"]) == {}
    job = _claimed(stores, node, incarnation)
    stores.operations.report(node, _report(incarnation, 1, job, OpState.READY))
    assert isinstance(stores.loads.finish(stores.job(job.id), ME), Job)
    version = stores.replicas.routing_version()
    assert stores.loads.revise("m", "r1", Evidence()) is Standing.STANDS
    assert stores.loads.revise("m", "r2", Evidence(was="r0")) is Standing.OTHER
    assert stores.loads.revise("m", "r2", Evidence(for_load=True)) is Standing.OTHER
    assert stores.replicas.routing_version() == version
    assert stores.loads.revisions(["m", "unknown"]) == {"m": "r1"}
    assert stores.loads.revise("m", "r2", Evidence(was="r1")) is Standing.SET
    assert stores.replicas.routing_snapshot().replicas == ()
    assert stores.loads.revisions(["m"]) == {"m": "r2"}
    assert stores.loads.revise("m", "r3", Evidence(for_load=True)) is Standing.SET, "nothing of r2 serves"


def test_a_new_life_proves_what_older_ones_ran(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    running, doomed = _claimed(stores, node, incarnation, "m"), _claimed(stores, node, incarnation, "other")
    stores.cancels.cancel(doomed.id, "api")
    stores.register("n")
    assert stores.job(running.id).error_cause == "worker_restarted"
    assert stores.job(doomed.id).stop_state == StopState.CONFIRMED
    assert stores.replica_rows() == []
    assert not stores.operations.claim(node, incarnation, running.id, running.op_generation or 0, 0).current_incarnation


def test_a_registration_that_is_carried_out_late_begins_no_life(stores: Stores) -> None:
    late = Registration(name="n", after=0)
    stores.nodes.register(late, "hash", TERMS)
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    with pytest.raises(NotTheNextLife) as refused:
        stores.nodes.register(late, "hash", TERMS)
    assert refused.value.incarnation == incarnation
    assert stores.job(job.id).state == State.RUNNING
    named = Registration(name="n", after=incarnation)
    assert stores.nodes.register(named, "hash", TERMS).incarnation == incarnation + 1


def test_a_registration_without_the_secret_of_a_running_node_begins_no_life(stores: Stores) -> None:
    def ask(secret_hash: str | None, address: str) -> Any:
        return stores.nodes.register(Registration(name="n", secret_hash=secret_hash, address=address), "hash", TERMS)

    own = ask("own", "a:1")
    job = _claimed(stores, own.id, own.incarnation)
    refused = ask("other", "b:1")
    assert isinstance(refused, Refused)
    assert refused.id == own.id
    assert stores.job(job.id).state == State.RUNNING
    again = ask("own", "b:1")
    assert again.incarnation == own.incarnation + 1
    assert stores.job(job.id).error_cause == "worker_restarted"
    stores.nodes.contest(own.id, own.incarnation)
    assert isinstance(ask("own", "a:1"), Refused)
    stores.nodes.deregister(own.id, again.incarnation)
    unapproved = Registration(name="n", secret_hash="other", address="c:1")
    waiting = stores.nodes.register(unapproved, "hash", Terms(stale_after_s=300.0))
    assert (waiting.incarnation, waiting.status) == (again.incarnation + 1, "pending")


def test_a_process_nobody_owns_is_named_and_its_cleanup_ends_with_it(stores: Stores) -> None:
    node, incarnation = stores.register("n")
    job = _claimed(stores, node, incarnation)
    stores.cancels.cancel(job.id, "api")
    stores.operations.confirm_stop(job.id, job.op_generation or 0, incarnation, "node:x")
    (orphan,) = stores.operations.report(node, _report(incarnation, 1, job, OpState.READY)).findings.orphans
    new = NewJob(kind=REPLICA_CLEANUP, subject=orphan.process_instance, node_id=node)
    _, cleanup = stores.jobs.request(new)
    again = stores.operations.report(node, _report(incarnation, 2, job, OpState.READY)).findings
    assert (again.orphans, again.stop_processes) == ((), (orphan.process_instance,))
    stores.operations.report(node, _report(incarnation, 3))
    assert stores.job(cleanup.id).state == State.SUCCEEDED


def test_what_was_sent_to_a_legacy_node_may_run_and_holds_for_its_long_window_and_no_longer(stores: Stores) -> None:
    node, _ = stores.register("n", legacy=True)
    job = _placed(stores, node)
    assert job.legacy
    (cancelled,) = stores.cancels.cancel(job.id, "api")
    assert cancelled.stop_state == StopState.PENDING, "sent counts as started"
    assert cancelled.hold_until is not None and cancelled.finished_at is not None
    held_s = (cancelled.hold_until - cancelled.finished_at).total_seconds()
    assert abs(held_s - WINDOWS.legacy_s) < 1
    assert stores.sweeps.due_stops(100) == [], "its address is not known: no stop is claimed"
    stores.register("n", legacy=True)
    stores.let_pass(WINDOWS.legacy_s - 60)
    assert stores.sweeps.give_up_stops(100) == []
    assert stores.loads.request("m", "r1")[0] is Intake.HELD
    assert stores.job(job.id).stop_state == StopState.PENDING, "a legacy registration proves nothing"
    stores.let_pass(61)
    (over,) = stores.sweeps.give_up_stops(100)
    assert (over.id, over.stop_state) == (job.id, StopState.NONE)
    assert stores.replica_rows() == []
    assert stores.loads.request("m", "r1")[0] is Intake.CREATED
    assert [row.event for row in stores.jobs.events(job.id)][-2:] == ["cancelled", "stop_given_up"]


def test_an_agent_that_claims_is_no_legacy_one_whatever_its_registration_said(stores: Stores) -> None:
    node, incarnation = stores.register("n", legacy=True)
    job = _claimed(stores, node, incarnation)
    assert not job.legacy
    (cancelled,) = stores.cancels.cancel(job.id, "api")
    assert cancelled.hold_until is not None and cancelled.finished_at is not None
    assert (cancelled.hold_until - cancelled.finished_at).total_seconds() < WINDOWS.stop_s + 1
    assert [job.id for job in stores.sweeps.due_stops(100)] == [job.id]
    stores.let_pass(WINDOWS.legacy_s + 1)
    assert stores.sweeps.give_up_stops(100) == [], "its stop ends with proof and not with time"


def test_a_legacy_node_that_became_a_newer_one_confirms_by_its_registration(stores: Stores) -> None:
    node, _ = stores.register("n", legacy=True)
    job = _placed(stores, node)
    stores.cancels.cancel(job.id, "api")
    stores.register("n")
    assert stores.job(job.id).stop_state == StopState.CONFIRMED


def test_a_load_on_a_legacy_node_is_not_adopted(stores: Stores) -> None:
    node, _ = stores.register("n", legacy=True)
    job = _placed(stores, node)
    stores.let_pass(WINDOWS.lease_s + 1)
    assert stores.jobs.adopt(OTHER, 100) == []
    (failed,) = stores.sweeps.lapse(100)
    assert (failed.id, failed.stop_state) == (job.id, StopState.PENDING)


def test_what_does_not_exist_moves_nothing(stores: Stores) -> None:
    job_id, node = JobId(new_id()), NodeId(new_id())
    assert stores.jobs.get(job_id) is None
    assert stores.cancels.cancel(job_id, "api") == []
    assert stores.jobs.take(job_id, 1, ME) is None
    assert not stores.operations.claim(node, 1, job_id, 1, None).granted
    assert not stores.operations.report(node, _report(1, 1)).node_known
    assert stores.operations.confirm_stop(job_id, 1, 1, "node:x") is None
