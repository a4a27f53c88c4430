"""Requests in flight keep a replica from its stop until a person forces it, or its bound is over, and not before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localai.errors import BadInput, JobEnded, LocalAIError, ModelUnloaded, NotForced, NotFound
from localai.ids import new_id
from localai.jobs.job import State
from localai.replicas.cuts import CutWindows
from localai.replicas.retirement import Retirement
from localai.replicas.store import PgReplicaStore
from localai.routing.drains import PgDrains
from localai.routing.picks import Pick
from localai.unloads.drain_rules import Wish
from tests.integration.jobs.frontends import Frontend, cleanups, request_unload, serving, stopped_by
from tests.integration.world import Agent, Control, World, in_thread, serving_load
from tests.loopback import eventually
from web.schemas.nodes import read_force

pytestmark = pytest.mark.integration


class Hanging:
    """A request whose call ends only if it is cut."""

    def __init__(self, frontend: Frontend, model: str) -> None:
        self.pick: Pick = frontend.pick(model)
        self.ended_by: list[LocalAIError] = []
        self.pick.cancelled_by(self._end)

    @property
    def cut(self) -> bool:
        return [type(error) for error in self.ended_by] == [ModelUnloaded]

    def _end(self, why: LocalAIError) -> None:
        self.ended_by.append(why)
        self.pick.release()


def marked_before(world: World, model: str, seconds: float) -> None:
    """Let the replicas of a model have been marked so long ago."""
    world.sql(
        "UPDATE replicas SET updated_at = updated_at - make_interval(secs => %(s)s) WHERE model = %(m)s",
        s=seconds,
        m=model,
    )


def unload(world: World, model: str, instance: str) -> None:
    request_unload(world, model)


def edit(world: World, model: str, instance: str) -> None:
    assert world.load_rows.revise(model, "r2")


def retire(world: World, model: str, instance: str) -> None:
    replica = world.replica(model)
    assert replica is not None
    Retirement(world.unit_of_work, world.bus).retire(str(replica["id"]), instance)


def drain(world: World, model: str, instance: str) -> None:
    replica = world.replica(model)
    assert replica is not None
    world.node_drains.drain(str(replica["node_id"]))
    world.drain_rows.take(replica["node_id"], "test")


@pytest.mark.parametrize("mark", [unload, edit, retire, drain])
def test_i7_a_request_is_cut_at_the_bound_and_not_before_whatever_marked_its_replica(
    world: World, control: Control, agent: Agent, frontend: Frontend, mark: Callable[[World, str, str], None]
) -> None:
    model = f"bound-{mark.__name__}"
    instance = serving(world, control, agent, model, frontend)
    request = Hanging(frontend, model)
    mark(world, model, instance)
    frontend.feed.step()
    marked_before(world, model, 290)
    frontend.feed.step()
    control.sweep.run_once()
    assert (request.ended_by, cleanups(world, instance)) == ([], []), "the bound of 300 s is not over"
    marked_before(world, model, 10)
    frontend.feed.step()
    assert request.cut
    frontend.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1, "it acknowledged the end of its request"


def test_a_frontend_that_does_not_end_its_request_is_not_waited_for_after_the_grace(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    instance = serving(world, control, agent, "deaf", frontend)
    frontend.pick("deaf")
    request_unload(world, "deaf")
    marked_before(world, "deaf", 302)
    control.sweep.run_once()
    assert cleanups(world, instance) == [], "it has 5 s to end its requests with an error that says why"
    marked_before(world, "deaf", 3)
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1


def test_time_that_nothing_observed_does_not_use_up_the_bound(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    """After an outage a frontend may be back before the first sweep, which adds the outage to the time of the mark."""
    serving(world, control, agent, "outage", frontend)
    serving(world, control, agent, "outage-forced", frontend)
    outage, forced = (frontend.pick(model).endpoint.process_instance for model in ("outage", "outage-forced"))
    request_unload(world, "outage")
    world.unloads.request("outage-forced", force=True)
    marked_before(world, "outage", 302)
    world.sql("UPDATE observation SET noted_at = clock_timestamp() - interval '16 s'")
    drains = PgDrains(world.unit_of_work, CutWindows(gap_s=15.0))

    def cut() -> dict[str, bool]:
        found = {row.process_instance: row.cut for row in drains.open_drains(frontend.ids[-1])}
        return {instance: found[instance] for instance in (outage, forced)}

    assert cut() == {outage: False, forced: True}
    world.sql("UPDATE observation SET noted_at = clock_timestamp()")
    assert cut() == {outage: True, forced: True}


def test_zero_waits_as_long_as_requests_run(world: World, control: Control, agent: Agent, frontend: Frontend) -> None:
    serving(world, control, agent, "no-bound", frontend)
    frontend.pick("no-bound")
    request_unload(world, "no-bound")
    marked_before(world, "no-bound", 1e6)
    store = PgReplicaStore(world.unit_of_work, CutWindows(after_s=None))
    assert [left for left in store.to_clean(100) if left.model == "no-bound"] == []


def test_force_cuts_the_requests_at_once_and_stops_the_exact_process(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    instance = serving(world, control, agent, "forced", frontend)
    request, stopped = Hanging(frontend, "forced"), stopped_by(world, agent)
    job = world.unloads.request("forced", force=True).job_id
    assert job is not None
    frontend.feed.step()
    assert request.cut
    frontend.feed.step()
    control.sweep.run_once()
    control.step(cleanups(world, instance)[0].id)
    assert (stopped, world.replica("forced")) == ([instance], None)
    assert control.step(job).state == State.SUCCEEDED


def test_force_hurries_an_unload_that_waits_already(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    instance = serving(world, control, agent, "hurried", frontend)
    request = Hanging(frontend, "hurried")
    first = request_unload(world, "hurried")
    frontend.feed.step()
    assert request.ended_by == []
    assert world.unloads.request("hurried", force=True).job_id == first, "one job"
    frontend.feed.step()
    assert request.cut
    frontend.feed.step()
    control.sweep.run_once()
    assert [cleanup.parent_id for cleanup in cleanups(world, instance)] == [first]


def test_force_on_one_node_leaves_requests_on_the_others(world: World, control: Control, frontend: Frontend) -> None:
    agents = [Agent(world), Agent(world)]
    _, there, _ = serving_load(world, control, agents, "node-force")
    (here,) = (agent for agent in agents if agent is not there)
    frontend.feed.step()
    request = Hanging(frontend, "node-force")
    world.unloads.unload_on(here.id, "node-force", force=True)
    frontend.feed.step()
    assert (request.ended_by, world.replica("node-force")["state"]) == ([], "loaded")  # type: ignore[index]
    world.unloads.unload_on(there.id, "node-force", force=True)
    frontend.feed.step()
    assert request.cut


def test_force_of_a_job_cuts_what_this_job_waits_for(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    serving(world, control, agent, "by-job", frontend)
    request = Hanging(frontend, "by-job")
    job = request_unload(world, "by-job")
    frontend.feed.step()
    assert world.unloads.force(job).id == job
    frontend.feed.step()
    assert request.cut


def test_force_of_a_drain_cuts_what_it_marked_and_what_it_marks_later(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    serving(world, control, agent, "drain-first", frontend)
    first = Hanging(frontend, "drain-first")
    drain_id = world.node_drains.drain(agent.id).job_id
    assert drain_id is not None
    control.step(drain_id)
    frontend.feed.step()
    assert first.ended_by == []
    world.unloads.force(drain_id)
    frontend.feed.step()
    assert first.cut
    assert Wish.of(world.job(drain_id).args) == Wish(cut=True), "and no removal follows from it"
    world.node_drains.resume(agent.id)

    serving(world, control, agent, "drain-later", frontend)
    later = Hanging(frontend, "drain-later")
    forced = world.node_drains.drain(agent.id, force=True).job_id
    assert forced is not None
    control.step(forced)
    frontend.feed.step()
    assert later.cut


def test_what_waits_for_no_request_cannot_be_forced(world: World, control: Control, agent: Agent) -> None:
    ticket = world.loads.request("not-forced", "r1")
    with pytest.raises(NotForced, match=r"a job model\.load waits for no request"):
        world.unloads.force(ticket.job_id)
    world.cancels.cancel(ticket.job_id)
    for unknown in (new_id(), "no-id"):
        with pytest.raises(NotFound):
            world.unloads.force(unknown)
    serving(world, control, agent, "force-ended")
    job = request_unload(world, "force-ended")
    world.cancels.cancel(job)
    with pytest.raises(JobEnded):
        world.unloads.force(job)


@pytest.mark.parametrize("value", ["true", 1, 0, [], {}])
def test_a_force_that_is_no_switch_is_refused(value: object) -> None:
    with pytest.raises(BadInput, match=r"force: .* cannot be used; accepted: true or false"):
        read_force({"force": value})
    assert [read_force(body) for body in ({}, {"force": None}, {"force": False}, {"force": True})] == [
        False,
        False,
        False,
        True,
    ]


# A cancelled unload


def test_a_cancelled_unload_lets_its_requests_end_and_keeps_the_replica_unroutable(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    instance = serving(world, control, agent, "kept", frontend)
    request = Hanging(frontend, "kept")
    job = request_unload(world, "kept")
    frontend.feed.step()
    assert ", cut at " in str(control.step(job).message)
    answer = world.cancels.cancel(job)
    assert (answer.state, world.job(job).state, world.job(job).hold_until) == ("stopped", State.CANCELLED, None)
    marked_before(world, "kept", 1e6)
    frontend.feed.step()
    control.sweep.run_once()
    assert (request.ended_by, cleanups(world, instance)) == ([], []), "its bound went with the unload"
    assert frontend.table.pick("kept") is None, "an unloading row never comes back"
    request.pick.release()
    frontend.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1, "and the process stops when its last request has ended"


def test_a_later_unload_or_drain_bounds_requests_that_a_cancelled_one_let_run(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    instance = serving(world, control, agent, "again", frontend)
    request = Hanging(frontend, "again")
    first = request_unload(world, "again")
    world.cancels.cancel(first)
    marked_before(world, "again", 1e6)
    second = request_unload(world, "again")
    assert second != first
    frontend.feed.step()
    assert request.ended_by == [], "the bound counts from the new unload"
    world.cancels.cancel(second)
    world.node_drains.drain(agent.id)
    marked_before(world, "again", 301)
    frontend.feed.step()
    assert request.cut
    frontend.feed.step()
    control.sweep.run_once()
    assert len(cleanups(world, instance)) == 1


def test_an_unload_that_waits_for_a_job_holds_no_replica(world: World, control: Control, agent: Agent) -> None:
    """A report holds jobs and waits for replicas, so the two would wait for each other."""
    serving(world, control, agent, "in-order")
    world.cancels.cancel(request_unload(world, "in-order"))
    live = world.loads.request("in-order", "r1").job_id
    with world.unit_of_work() as uow:
        uow.execute("SELECT 1 FROM jobs WHERE id = %(id)s FOR UPDATE", {"id": live})
        unloading, outcome = in_thread(lambda: request_unload(world, "in-order"))
        eventually(world.waiting_for_a_lock, "the unload at the row of the load")
        held = "SELECT id FROM replicas WHERE model = 'in-order' AND state = 'unloading' FOR UPDATE NOWAIT"
        assert len(uow.execute(held).all()) == 1
    unloading.join(30)
    assert isinstance(outcome[0], str), outcome
    (replica,) = world.sql("SELECT stop_after FROM replicas WHERE model = 'in-order'")
    assert replica["stop_after"] is None, "its requests have a bound again"


def test_a_cancelled_unload_takes_nothing_from_a_drain_of_the_node(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    serving(world, control, agent, "drained-too", frontend)
    request = Hanging(frontend, "drained-too")
    job = request_unload(world, "drained-too")
    world.node_drains.drain(agent.id)
    world.cancels.cancel(job)
    marked_before(world, "drained-too", 301)
    frontend.feed.step()
    assert request.cut


def test_a_cancel_takes_no_force_back(world: World, control: Control, agent: Agent, frontend: Frontend) -> None:
    serving(world, control, agent, "forced-first", frontend)
    request = Hanging(frontend, "forced-first")
    job = world.unloads.request("forced-first", force=True).job_id
    assert job is not None
    world.cancels.cancel(job)
    frontend.feed.step()
    assert request.cut


def test_a_cancel_and_a_second_unload_at_once_leave_one_live_unload_or_none(
    world: World, control: Control, agent: Agent, frontend: Frontend
) -> None:
    """Both take the subject first: neither waits for a row of the other."""
    serving(world, control, agent, "both-at-once", frontend)
    frontend.pick("both-at-once")
    job = request_unload(world, "both-at-once")
    with world.holding("SELECT 1 FROM subjects WHERE kind = 'model' AND name = 'both-at-once' FOR UPDATE"):
        cancelling, cancelled = in_thread(lambda: world.cancels.cancel(job))
        unloading, unloaded = in_thread(lambda: world.unloads.request("both-at-once").job_id)
        eventually(lambda: world.waiting_for_a_lock() == 2, "both at the subject")
    for thread in (cancelling, unloading):
        thread.join(30)
    assert not [outcome for outcome in (*cancelled, *unloaded) if isinstance(outcome, BaseException)]
    assert world.job(job).state == State.CANCELLED
    (second,) = unloaded
    assert second == job or world.job(str(second)).live
