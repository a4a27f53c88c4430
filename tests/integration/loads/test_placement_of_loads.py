"""How a load gets its node, its slot and its files, with the reservation in the transaction of the choice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from localai.clock import boottime
from localai.errors import OperationFailed
from localai.jobs.job import Job, State
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.operation_rules import OpState
from localai.jobs.owner import Owner
from localai.loads.install_steps import InstallSteps
from localai.loads.ports import LoadPlan
from localai.loads.quarantines import PgQuarantines
from localai.loads.service import LoadTicket
from localai.nodes.rules import Registration
from tests.integration.world import (
    GIB,
    Agent,
    Control,
    World,
    in_thread,
    placed_load,
    plain_plan,
    serving_load,
    staged,
)
from tests.loopback import eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def nodes(world: World) -> None:
    """No node serves but those a test registers."""
    for node in world.nodes.list():
        if node.status != "offline":
            world.nodes.deregister(node.id)


@pytest.fixture
def control(world: World) -> Control:
    return Control(world)


@pytest.mark.usefixtures("nodes")
def test_rt_14_two_placements_at_once_do_not_promise_the_same_memory(world: World) -> None:
    first = Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    second = Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    for model in ("rt-14-a", "rt-14-b", "rt-14-c"):
        world.plans.plans[model] = plain_plan(model, files=staged(6 * GIB))
    jobs = [world.loads.request(model, "r1").job_id for model in ("rt-14-a", "rt-14-b", "rt-14-c")]
    controls = [Control(world) for _ in jobs]
    runs = [in_thread(lambda c=c, j=j: c.step(j)) for c, j in zip(controls, jobs, strict=True)]  # type: ignore[misc]
    for thread, _ in runs:
        thread.join(60)
    rows = [world.job(job_id) for job_id in jobs]
    assert {row.node_id for row in rows if row.state == State.RUNNING} == {first.id, second.id}
    (refused,) = [row for row in rows if row.state == State.FAILED]
    assert refused.error_cause == "no_room"
    assert "6.4 GB" in (refused.error or "") and first.name in (refused.error or "")


@pytest.mark.usefixtures("nodes")
def test_a_placement_waits_for_the_lock_of_its_node_and_then_looks_again(world: World, control: Control) -> None:
    agent = Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    world.plans.plans["looks-again"] = plain_plan("looks-again", files=staged(6 * GIB))
    ticket = world.loads.request("looks-again", "r1")
    with world.unit_of_work() as uow:
        uow.execute("SELECT 1 FROM nodes WHERE id = %(id)s FOR UPDATE", {"id": agent.id})
        placing, outcome = in_thread(lambda: control.step(ticket.job_id))
        eventually(world.waiting_for_a_lock, "the placement at the node's row")
        uow.execute("UPDATE nodes SET available_ram = 0 WHERE id = %(id)s", {"id": agent.id})
    placing.join(30)
    assert outcome[0].error_cause == "no_room"  # type: ignore[attr-defined]


@pytest.mark.usefixtures("nodes")
def test_without_a_node_the_error_names_each_one_and_why(world: World, control: Control) -> None:
    pending = world.nodes.register(Registration(name="waits-for-an-admin"))
    world.sql("UPDATE nodes SET status = 'pending', approved = false WHERE id = %(id)s", id=pending.id)
    job = control.step(world.loads.request("nowhere", "r1").job_id)
    assert (job.state, job.error_cause) == (State.FAILED, "no_node")
    assert "waits-for-an-admin: waits for approval" in (job.error or "")


@pytest.mark.usefixtures("nodes")
def test_bu_03_the_load_after_a_silent_one_goes_to_another_node_until_the_first_claims_an_order(
    world: World, control: Control
) -> None:
    quiet = Agent(world, total_ram=20 * GIB, available_ram=20 * GIB)
    other = Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    first = placed_load(world, control, "bu-03-a")
    assert first.node_id == quiet.id
    control.owner.fail(first, "worker_silent", "quiet", ended=False)
    second = placed_load(world, control, "bu-03-b")
    assert second.node_id == other.id
    control.owner.fail(second, "load_refused", "over", ended=True)
    world.sql("UPDATE nodes SET last_heartbeat = clock_timestamp() WHERE id = %(id)s", id=quiet.id)
    third = placed_load(world, control, "bu-03-c")
    assert third.node_id == other.id, "a heartbeat shows no taken order"
    control.owner.fail(third, "load_refused", "over", ended=True)
    refused = world.operation_rows.claim(quiet.id, quiet.incarnation, first.id, first.op_generation or 0, 0)
    assert not refused.granted
    assert placed_load(world, control, "bu-03-d").node_id == quiet.id, "a claim does, also a refused one"


@pytest.mark.usefixtures("nodes")
def test_an_order_that_is_not_claimed_goes_to_another_node_within_the_same_attempt(
    world: World, control: Control
) -> None:
    deaf = Agent(world, total_ram=20 * GIB, available_ram=20 * GIB)
    other = Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    before = placed_load(world, control, "ignored")
    assert before.node_id == deaf.id
    control.sweep.run_once()
    assert world.job(before.id).node_id == deaf.id, "it has two dispatch windows to claim"

    ignore(world, before)
    control.sweep.run_once()
    moved = world.job(before.id)
    assert (moved.node_id, moved.op_state, moved.generation) == (other.id, OpState.SENT, before.generation)
    assert moved.op_generation is not None and before.op_generation is not None
    assert moved.op_generation > before.op_generation
    assert (other.id, moved.id, moved.op_generation) in world.wakeups.orders
    row = world.replica("ignored")
    assert row is not None
    assert (row["node_id"], row["op_generation"]) == (other.id, moved.op_generation)

    late = world.operation_rows.claim(deaf.id, deaf.incarnation, before.id, before.op_generation, 0)
    assert not late.granted, "the order before is void, however late its claim comes"
    order = other.claim(moved)
    assert order.op_generation == moved.op_generation
    other.become_ready(moved)
    assert control.step(moved.id).state == State.SUCCEEDED


@pytest.mark.usefixtures("nodes")
def test_an_order_stays_where_it_is_if_no_other_node_takes_orders(world: World, control: Control) -> None:
    deaf = Agent(world, total_ram=20 * GIB, available_ram=20 * GIB)
    job = placed_load(world, control, "nowhere-else")
    ignore(world, job)
    control.sweep.run_once()
    same = world.job(job.id)
    assert (same.node_id, same.op_generation, same.state) == (deaf.id, job.op_generation, State.RUNNING)
    deaf.claim(same)
    assert world.job(job.id).op_state == OpState.CLAIMED


@pytest.mark.usefixtures("nodes")
def test_a_claimed_order_and_one_of_a_legacy_node_are_never_given_to_another_node(
    world: World, control: Control
) -> None:
    first = Agent(world, total_ram=20 * GIB, available_ram=20 * GIB)
    claimed = placed_load(world, control, "claimed")
    first.claim(claimed)
    Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    ignore(world, claimed)
    control.sweep.run_once()
    assert world.job(claimed.id).node_id == first.id
    world.nodes.deregister(first.id)
    legacy = Agent(world, total_ram=40 * GIB, available_ram=40 * GIB, legacy=True)
    sent = placed_load(world, control, "legacy")
    assert sent.node_id == legacy.id
    ignore(world, sent)
    control.sweep.run_once()
    assert world.job(sent.id).node_id == legacy.id


@pytest.mark.usefixtures("nodes")
def test_a_model_on_a_node_that_takes_no_orders_is_in_quarantine_until_the_node_claims_one(
    world: World, control: Control
) -> None:
    deaf = Agent(world, total_ram=20 * GIB, available_ram=20 * GIB)
    quarantines = PgQuarantines(world.unit_of_work, 3, 300.0)
    for _ in range(3):
        job = placed_load(world, control, "deaf")
        control.owner.fail(job, "worker_silent", "quiet", ended=False)
        world.end_hold(job.id)
    assert [streak.cause for streak in quarantines.list(model="deaf")] == ["worker_silent"]
    world.sql("UPDATE failure_streaks SET last_at = last_at - interval '301 s' WHERE model = 'deaf'")
    assert quarantines.list(model="deaf") == [], "it is tried again after a while"
    world.sql("UPDATE failure_streaks SET last_at = last_at + interval '301 s' WHERE model = 'deaf'")
    deaf.claim(placed_load(world, control, "another"))
    assert quarantines.list(model="deaf") == []


def ignore(world: World, job: Job) -> None:
    """Let two dispatch windows pass without a claim."""
    world.sql(
        "UPDATE jobs SET placed_at = placed_at - make_interval(secs => %(s)s) WHERE id = %(id)s",
        s=2 * world.windows.dispatch_s + 1,
        id=job.id,
    )


@pytest.mark.usefixtures("nodes")
def test_the_order_carries_what_the_agent_needs(world: World, control: Control) -> None:
    agent = Agent(world)
    world.plans.plans["ordered"] = plain_plan("ordered", files=staged(2 * GIB))
    order = agent.claim(placed_load(world, control, "ordered"))
    assert (order.identity, order.model_file, order.files[0].sources) == (None, "model.gguf", ("/files/model.gguf",))
    assert order.load_timeout_s == pytest.approx(340.0)
    assert "2.00 GiB" in order.load_timeout_reason
    assert (order.install_timeout_s, order.deadline_s) == (900.0, 86_400.0)


@pytest.mark.usefixtures("nodes")
def test_a_config_that_changed_since_the_request_fails_the_load_before_anything_was_sent(
    world: World, control: Control
) -> None:
    Agent(world)
    ticket = world.loads.request("edited", "r1")
    world.plans.revisions["edited"] = "r2"
    job = control.step(ticket.job_id)
    assert (job.error_cause, job.op_generation) == ("revision_changed", None)


@pytest.mark.usefixtures("nodes")
def test_a_new_revision_makes_the_old_replica_unroutable_and_is_loaded_beside_it(
    world: World, control: Control
) -> None:
    agent = Agent(world)
    _, _, instance = serving_load(world, control, [agent], "revised")
    world.plans.revisions["revised"] = "r2"
    ticket = world.loads.request("revised", "r2")
    assert ticket.state == "created"
    job = control.step(ticket.job_id)
    assert (job.op_state, job.slot) == (OpState.SENT, 1), "what is being stopped takes no slot of its node"
    assert [r for r in world.replicas.routing_snapshot().replicas if r.model == "revised"] == []
    control.sweep.run_once()
    assert agent.report().stop_processes == (instance,)
    agent.claim(job)
    agent.become_ready(job)
    assert control.step(job.id).state == State.SUCCEEDED
    assert [r.revision for r in world.replicas.routing_snapshot().replicas if r.model == "revised"] == ["r2"]


@pytest.mark.usefixtures("nodes")
def test_without_memory_for_both_the_new_revision_waits_until_the_old_one_is_gone(
    world: World, control: Control
) -> None:
    agent = Agent(world, total_ram=10 * GIB, available_ram=10 * GIB)
    world.plans.plans["takes-its-place"] = plain_plan("takes-its-place", files=staged(6 * GIB))
    _, _, instance = serving_load(world, control, [agent], "takes-its-place")
    world.plans.revisions["takes-its-place"] = "r2"
    ticket = world.loads.request("takes-its-place", "r2")
    waiting = control.step(ticket.job_id)
    assert (waiting.state, waiting.op_generation) == (State.RUNNING, None)
    control.sweep.run_once()
    assert agent.report().stop_processes == (instance,)
    del agent.processes[instance]
    agent.report()
    assert control.step(ticket.job_id).op_state == OpState.SENT


def test_pm_05_the_claim_of_a_load_holds_no_lock_while_it_runs(world: World, control: Control) -> None:
    Agent(world)
    placed_load(world, control, "pm-05")
    locks = world.sql("SELECT locktype FROM pg_locks WHERE locktype IN ('advisory', 'transactionid')")
    assert [row["locktype"] for row in locks if row["locktype"] == "advisory"] == []


# The bytes come first


class Fetching:
    """An install that a test lets go on."""

    def __init__(self, world: World, model: str, failure: Exception | None = None) -> None:
        self.world, self.model, self.failure = world, model, failure
        self.started, self.go_on = threading.Event(), threading.Event()
        self.cancelled_seen = False

    def install(self, model: str, progress: object, cancelled: object) -> None:
        self.started.set()
        assert self.go_on.wait(60)
        self.cancelled_seen = cancelled()  # type: ignore[operator]
        if self.cancelled_seen:
            raise OperationFailed("cancelled", "cancelled")
        if self.failure is not None:
            raise self.failure
        self.world.plans.plans[model] = plain_plan(model, files=staged(10))


def _with_installs(
    world: World, fetching: Fetching, pool: ThreadPoolExecutor, clock: Callable[[], float] = boottime
) -> Control:
    def steps(owner: Owner) -> InstallSteps:
        return InstallSteps(owner, world.jobs, fetching, world.announcer, pool=pool, clock=clock)

    return Control(world, more={MODEL_INSTALL: steps})


def _install_steps(control: Control) -> InstallSteps:
    steps = control.stepper._steps[MODEL_INSTALL]
    assert isinstance(steps, InstallSteps)
    return steps


def _installing(world: World, control: Control, model: str) -> tuple[LoadTicket, Job]:
    """A load and the job that fetches its files, begun or waiting for a thread."""
    world.plans.plans[model] = _unfetched(model)
    ticket = world.loads.request(model, "r1")
    control.step(ticket.job_id)
    install = world.jobs.live(MODEL_INSTALL, model)
    assert install is not None
    return ticket, control.step(install.id)


def _long_silent(world: World, *job_ids: str) -> None:
    for job_id in job_ids:
        world.sql(
            "UPDATE jobs SET started_at = started_at - interval '400 s', "
            "phase_started_at = phase_started_at - interval '400 s' WHERE id = %(id)s",
            id=job_id,
        )


def _unfetched(model: str) -> LoadPlan:
    return replace(plain_plan(model), files=None)


@pytest.mark.usefixtures("nodes")
def test_a_load_whose_bytes_are_missing_waits_for_one_install_job_and_goes_on_when_it_ends(world: World) -> None:
    Agent(world)
    world.plans.plans["fetched"] = _unfetched("fetched")
    fetching = Fetching(world, "fetched")
    with ThreadPoolExecutor(2) as pool:
        control = _with_installs(world, fetching, pool)
        load = control.step(world.loads.request("fetched", "r1").job_id)
        control.step(load.id)
        (install,) = world.job_service.children(load.id)
        assert (install.kind, install.parent_id) == (MODEL_INSTALL, load.id)
        control.step(install.id)
        assert fetching.started.wait(60)
        control.step(install.id)
        fetching.go_on.set()
        eventually(lambda: world.job(install.id).state == State.SUCCEEDED, "the install")
    assert (load.id, load.generation) in world.wakeups.control
    assert control.step(load.id).op_state == OpState.SENT


@pytest.mark.usefixtures("nodes")
def test_an_install_that_fails_is_the_cause_of_its_load(world: World) -> None:
    world.plans.plans["unfetchable"] = _unfetched("unfetchable")
    fetching = Fetching(world, "unfetchable", OperationFailed("digest_mismatch", "other bytes than promised"))
    fetching.go_on.set()
    with ThreadPoolExecutor(2) as pool:
        control = _with_installs(world, fetching, pool)
        load = control.step(world.loads.request("unfetchable", "r1").job_id)
        (install,) = world.job_service.children(load.id)
        control.step(install.id)
        eventually(lambda: not world.job(install.id).live, "the install")
    row = control.step(load.id)
    assert (row.error_cause, row.error) == ("digest_mismatch", "other bytes than promised")


@pytest.mark.usefixtures("nodes")
def test_lj_04_an_install_in_which_nothing_moves_fails_its_load_and_the_stuck_work_writes_nothing(
    world: World,
) -> None:
    Agent(world)
    fetching, now = Fetching(world, "stuck"), [1000.0]
    with ThreadPoolExecutor(1) as pool:
        control = _with_installs(world, fetching, pool, lambda: now[0])
        ticket, install = _installing(world, control, "stuck")
        assert fetching.started.wait(60)
        _, waiting = _installing(world, control, "waits-for-a-thread")
        control.sweep.run_once()
        assert world.job(install.id).state == State.RUNNING
        _long_silent(world, install.id, waiting.id)
        control.sweep.run_once()
        assert world.job(install.id).state == State.RUNNING, "its thread began a moment ago"
        now[0] += 400
        control.step(waiting.id)
        assert world.job(waiting.id).state == State.RUNNING, "it waits for a thread that may still move"
        control.step(install.id)
        control.sweep.run_once()
        row, load = world.job(install.id), world.job(ticket.job_id)
        assert world.job(waiting.id).error_cause == "staging_stalled", "no thread is left that moves"
        assert (row.state, row.error_cause) == (State.FAILED, "staging_stalled")
        assert "LOCALAI_STAGING_STALL_WINDOW" in (row.error or "")
        assert (load.state, load.error_cause, load.error) == (State.FAILED, "staging_stalled", row.error)
        fetching.go_on.set()
    assert fetching.cancelled_seen, "the work learns it with its next piece"
    assert world.job(install.id).error == row.error


@pytest.mark.usefixtures("nodes")
def test_an_install_whose_job_was_cancelled_stops_its_own_work_and_writes_nothing(world: World) -> None:
    world.plans.plans["cancelled"] = _unfetched("cancelled")
    fetching = Fetching(world, "cancelled")
    with ThreadPoolExecutor(2) as pool:
        control = _with_installs(world, fetching, pool)
        load = control.step(world.loads.request("cancelled", "r1").job_id)
        (install,) = world.job_service.children(load.id)
        control.step(install.id)
        assert fetching.started.wait(60)
        world.cancels.cancel(install.id)
        control.owner.renew()
        fetching.go_on.set()
    assert fetching.cancelled_seen
    assert world.job(install.id).state == State.CANCELLED
    assert world.events(install.id).count("cancelled") == 1


@pytest.mark.usefixtures("nodes")
def test_a_process_that_ends_begins_no_fetch_and_waits_for_the_one_under_way(world: World) -> None:
    fetching = Fetching(world, "ends")
    with ThreadPoolExecutor(1) as pool:
        control = _with_installs(world, fetching, pool)
        _, install = _installing(world, control, "ends")
        assert fetching.started.wait(60)
        _, waiting = _installing(world, control, "never-begun")
        steps = _install_steps(control)
        assert not steps.end(0.0), "its thread goes on"
        fetching.started.clear()
        fetching.go_on.set()
        assert steps.end(60)
    assert fetching.cancelled_seen and not fetching.started.is_set()
    for job in (install, waiting):
        assert world.events(job.id)[-1] == "taken", "nothing of the end is written"
        assert control.owner.holds(world.job(job.id)), "it is ours until it is given back"
    control.owner.release()
    other = Control(world)
    other.sweep.run_once()
    assert {world.job(job.id).state for job in (install, waiting)} == {State.QUEUED}


@pytest.mark.usefixtures("nodes")
def test_a_live_install_s_bytes_are_shown_as_the_load_s(world: World) -> None:
    world.plans.plans["shown"] = _unfetched("shown")
    control = Control(world)
    load = control.step(world.loads.request("shown", "r1").job_id)
    (install,) = world.job_service.children(load.id)
    world.sql(
        "UPDATE jobs SET bytes_done = 50, bytes_total = 100, file_index = 2, files_total = 2 WHERE id = %(id)s",
        id=install.id,
    )
    status = world.loads.status("shown")
    assert status is not None
    assert (status.state, status.progress, status.total_bytes) == ("pending", 75.0, 100)
    assert "fetched to the frontend (75%)" in status.message()
