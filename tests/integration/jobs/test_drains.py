"""Nothing is stopped while a live frontend routes to it or has a request with it: real rows, real tables, real feeds."""

from __future__ import annotations

import re

import pytest

from localai.jobs.job import State, StopState
from localai.jobs.kinds import MODEL_LOAD, MODEL_UNLOAD, REPLICA_CLEANUP
from localai.jobs.ports import JobFilter
from localai.models.revision_rules import Standing
from localai.replicas.retirement import Retirement
from localai.routing.picks import Pick
from tests.integration.jobs.frontends import Frontend, cleanups, request_unload, serving, stopped_by
from tests.integration.world import Agent, Control, World, in_thread, placed_load, serving_load
from tests.loopback import eventually

pytestmark = pytest.mark.integration


def test_i7_a_replica_is_stopped_only_after_every_live_frontend_is_done_with_it(
    world: World, control: Control, agent: Agent, frontends: tuple[Frontend, Frontend]
) -> None:
    busy, idle = frontends
    instance = serving(world, control, agent, "i7", busy, idle)
    stopped, request = stopped_by(world, agent), busy.pick("i7")
    unload = request_unload(world, "i7")

    def nothing_is_stopped(why: str) -> None:
        control.sweep.run_once()
        control.step(unload)
        assert cleanups(world, instance) == [] and agent.report().stop_processes == (), why

    nothing_is_stopped("nobody has said anything")
    assert world.job(unload).message == f"2 frontends still to confirm for {agent.name}"
    idle.feed.step()
    nothing_is_stopped("one has said nothing")
    busy.feed.step()
    nothing_is_stopped("a request is in flight")
    waits = rf"1 request in flight on {agent.name}, cut at \d\d:\d\d:\d\d UTC"
    assert re.fullmatch(waits, world.job(unload).message or "")
    assert busy.table.pick("i7") is None
    request.release()
    nothing_is_stopped("its end is not said yet")
    busy.feed.step()
    control.sweep.run_once()
    (cleanup,) = cleanups(world, instance)
    assert cleanup.parent_id == unload
    control.step(cleanup.id)
    assert stopped == [instance]
    assert world.replica("i7") is None
    assert control.step(unload).state == State.SUCCEEDED


def test_i7_an_edited_config_cuts_no_request(
    world: World, control: Control, agent: Agent, frontends: tuple[Frontend, Frontend]
) -> None:
    busy, idle = frontends
    instance = serving(world, control, agent, "i7-edited", busy, idle)
    request = busy.pick("i7-edited")
    assert world.load_rows.revise("i7-edited", "r2") is Standing.SET
    for frontend in frontends:
        frontend.feed.step()
    control.sweep.run_once()
    assert cleanups(world, instance) == []
    request.release()
    busy.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1


def test_i7_a_process_that_lost_its_model_is_not_stopped_under_a_request(
    world: World, control: Control, agent: Agent, frontends: tuple[Frontend, Frontend]
) -> None:
    busy, idle = frontends
    instance = serving(world, control, agent, "i7-retired", busy, idle)
    replica, request = world.replica("i7-retired"), busy.pick("i7-retired")
    assert replica is not None
    Retirement(world.unit_of_work, world.bus).retire(str(replica["id"]), instance)
    for frontend in frontends:
        frontend.feed.step()
    control.sweep.run_once()
    assert cleanups(world, instance) == []
    request.release()
    busy.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1


def test_c18_a_mark_between_read_and_apply_is_not_acknowledged_by_the_table_that_still_picks(
    world: World, control: Control, agent: Agent, frontends: tuple[Frontend, Frontend]
) -> None:
    late, idle = frontends
    instance = serving(world, control, agent, "c18", late, idle)
    late.signals.then_read = lambda: request_unload(world, "c18")
    late.feed.nudge()
    late.feed.step()
    idle.feed.step()
    request = late.pick("c18")
    control.sweep.run_once()
    assert cleanups(world, instance) == [], "the table that was read before the mark still routes there"
    late.feed.step()
    control.sweep.run_once()
    assert cleanups(world, instance) == [], "it says that a request is in flight"
    request.release()
    late.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1


def test_c19_a_request_picked_before_the_table_changed_is_counted(
    world: World, control: Control, agent: Agent, frontends: tuple[Frontend, Frontend]
) -> None:
    """The pick falls between the reading of the new rows and their taking over: count and table are one step."""
    picking, idle = frontends
    instance = serving(world, control, agent, "c19", picking, idle)
    request_unload(world, "c19")
    requests: list[Pick] = []
    picking.signals.then_read = lambda: requests.append(picking.pick("c19"))
    picking.feed.step()
    idle.feed.step()
    control.sweep.run_once()
    assert cleanups(world, instance) == []
    requests[0].release()
    picking.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1


def test_c16_a_frontend_that_registers_after_the_mark_has_never_had_the_replica_and_says_so(
    world: World, control: Control, agent: Agent
) -> None:
    instance = serving(world, control, agent, "c16")
    request_unload(world, "c16")
    newcomer = Frontend(world)
    assert newcomer.table.pick("c16") is None
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1
    newcomer.feed.stop()


def test_a_dead_frontend_is_waited_for_until_its_lease_ends_and_no_longer(
    world: World, control: Control, agent: Agent
) -> None:
    dead, living = Frontend(world), Frontend(world)
    instance = serving(world, control, agent, "dead-frontend", dead, living)
    dead.pick("dead-frontend")
    request_unload(world, "dead-frontend")
    living.feed.step()
    control.sweep.run_once()
    assert cleanups(world, instance) == []
    dead.vanish()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1
    living.feed.stop()


def test_a_frontend_whose_lease_is_over_cannot_acknowledge(world: World, control: Control, agent: Agent) -> None:
    frontend = Frontend(world)
    serving(world, control, agent, "late-word", frontend)
    request_unload(world, "late-word")
    frontend.signals.then_counted = frontend.vanish
    frontend.feed.step()
    replica = world.replica("late-word")
    assert replica is not None
    assert world.sql("SELECT 1 FROM drain_acks WHERE replica_id = %(id)s", id=str(replica["id"])) == []
    frontend.feed.stop()


def test_an_acknowledgement_of_a_replica_that_goes_at_that_moment_is_no_fault(
    world: World, control: Control, agent: Agent
) -> None:
    frontend = Frontend(world)
    serving(world, control, agent, "goes-meanwhile", frontend)
    request_unload(world, "goes-meanwhile")
    replica = world.replica("goes-meanwhile")
    assert replica is not None
    with world.unit_of_work() as uow:
        uow.execute("DELETE FROM replicas WHERE id = %(id)s", {"id": replica["id"]})
        saying, outcome = in_thread(lambda: world.drains.acknowledge(frontend.ids[-1], str(replica["id"]), 0))
        eventually(world.waiting_for_a_lock, "the acknowledgement at the row")
    saying.join(30)
    assert outcome == [None]
    frontend.feed.stop()


# Unloading


def test_an_unload_stops_what_served_and_leaves_what_is_loaded_afterwards(
    world: World, control: Control, agent: Agent
) -> None:
    frontend = Frontend(world)
    old = serving(world, control, agent, "reloaded", frontend)
    request = frontend.pick("reloaded")
    unload = request_unload(world, "reloaded")
    frontend.feed.step()
    job, _, new = serving_load(world, control, [agent], "reloaded")
    assert job.slot == 1, "beside the replica that ends its last request, on the same node"
    frontend.feed.step()
    assert frontend.pick("reloaded").endpoint.process_instance == new
    stopped = stopped_by(world, agent)
    request.release()
    frontend.feed.step()
    control.sweep.run_once()
    control.step(cleanups(world, old)[0].id)
    assert stopped == [old]
    assert control.step(unload).state == State.SUCCEEDED
    assert [replica.process_instance for replica in world.replicas.routing_snapshot().replicas] == [new]
    frontend.feed.stop()


def test_an_unload_under_way_takes_in_what_a_second_one_finds(world: World, control: Control, agent: Agent) -> None:
    frontend = Frontend(world)
    serving(world, control, agent, "twice", frontend)
    frontend.pick("twice")
    first = request_unload(world, "twice")
    frontend.feed.step()
    _, _, second_instance = serving_load(world, control, [agent], "twice")
    frontend.feed.step()
    assert request_unload(world, "twice") == first
    frontend.feed.step()
    control.sweep.run_once()
    (cleanup,) = cleanups(world, second_instance)
    assert cleanup.parent_id == first
    assert control.step(first).state == State.RUNNING
    frontend.feed.stop()


def test_two_unloads_at_once_are_one_job(world: World, control: Control, agent: Agent) -> None:
    """Also where nothing is left to mark, so that no replica's row makes one of them wait."""
    serving(world, control, agent, "unloaded-twice")
    world.load_rows.revise("unloaded-twice", "r2")
    with world.holding("SELECT 1 FROM subjects WHERE kind = 'model' AND name = 'unloaded-twice' FOR UPDATE"):
        both = [in_thread(lambda: world.unloads.request("unloaded-twice").job_id) for _ in range(2)]
        eventually(lambda: world.waiting_for_a_lock() == 2, "both at the subject")
    for thread, _ in both:
        thread.join(30)
    (first,), (second,) = (outcome for _, outcome in both)
    assert isinstance(first, str) and first == second


def test_an_unload_cancels_a_load_under_way_and_ends_when_nothing_of_it_runs(
    world: World, control: Control, agent: Agent
) -> None:
    load = placed_load(world, control, "cancelled-by-unload")
    agent.claim(load)
    unload = request_unload(world, "cancelled-by-unload")
    cancelled = world.job(load.id)
    assert (cancelled.state, cancelled.stop_state) == (State.CANCELLED, StopState.PENDING)
    assert control.step(unload).state == State.RUNNING
    agent.end(load)
    assert world.job(load.id).stop_state == StopState.CONFIRMED
    assert control.step(unload).state == State.SUCCEEDED
    assert "succeeded" in world.events(unload)


def test_a_load_that_finishes_at_the_same_moment_is_unloaded_or_cancelled_and_never_left(
    world: World, control: Control, agent: Agent
) -> None:
    """The finish holds the subject: the unload waits for it, and then finds a replica that serves."""
    load = placed_load(world, control, "at-once")
    agent.claim(load)
    agent.become_ready(load)
    with world.holding("SELECT 1 FROM subjects WHERE kind = 'model' AND name = 'at-once' FOR UPDATE"):
        finishing, finished = in_thread(lambda: control.step(load.id))
        eventually(world.waiting_for_a_lock, "the finish at the subject")
        unloading, unloaded = in_thread(lambda: world.unloads.request("at-once"))
    finishing.join(30)
    unloading.join(30)
    assert not [outcome for outcome in (*finished, *unloaded) if isinstance(outcome, BaseException)]
    replica = world.replica("at-once")
    assert replica is not None and replica["state"] == "unloading"
    assert world.job(load.id).state in (State.SUCCEEDED, State.CANCELLED)


def test_nothing_to_unload_is_no_error_and_makes_no_job(world: World) -> None:
    unload = world.unloads.request("nobody-loaded-this")
    assert (unload.job_id, unload.cancelled_loads) == (None, 0)
    assert world.jobs.list(JobFilter(kind=MODEL_UNLOAD, subject="nobody-loaded-this")) == []
    assert world.sql("SELECT 1 FROM subjects WHERE name = 'nobody-loaded-this'") == []


def test_a_load_that_was_never_placed_is_cancelled_and_nothing_is_left_to_wait_for(world: World) -> None:
    ticket = world.loads.request("never-placed", "r1")
    unload = world.unloads.request("never-placed")
    assert (unload.job_id, unload.cancelled_loads) == (None, 1)
    assert world.job(ticket.job_id).state == State.CANCELLED
    assert len(world.jobs.list(JobFilter(kind=MODEL_LOAD, subject="never-placed"))) == 1


def test_an_unload_whose_owner_is_lost_is_ended_by_another(world: World, control: Control, agent: Agent) -> None:
    serving(world, control, agent, "owner-lost")
    unload = request_unload(world, "owner-lost")
    assert control.step(unload).state == State.RUNNING
    world.lapse(unload)
    other = Control(world)
    other.sweep.run_once()
    stopped_by(world, agent)
    for cleanup in world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, parent_id=world.job(unload).id)):
        other.step(cleanup.id)
    assert other.step(unload).state == State.SUCCEEDED
