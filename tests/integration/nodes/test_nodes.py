"""What registration, heartbeat and approval do to a node's row and to the work of its older lives."""

from __future__ import annotations

import pytest

from localai.errors import BadInput, JoinTokenRefused, NodeNameTaken, NotFound, Replaced, TooManyPendingNodes
from localai.ids import new_id
from localai.jobs.job import State, StopState
from localai.jobs.operation_rules import Answer
from localai.nodes.credentials import hash_of
from localai.nodes.invitations import Invitations
from localai.nodes.rules import Figures, Registration
from localai.nodes.service import NodeService
from localai.nodes.store import PgNodeStore
from tests.integration.world import GIB, Agent, Control, World, placed_load, serving_load

pytestmark = pytest.mark.integration


@pytest.fixture
def agent(world: World) -> Agent:
    for node in world.nodes.list():
        if node.status != "offline":
            world.nodes.deregister(node.id)
    return Agent(world)


def _service(world: World, **settings: object) -> NodeService:  # type: ignore[type-arg]
    return NodeService(
        PgNodeStore(world.unit_of_work, world.operation_rows.new_incarnation),
        world.bus,
        tell_moved=lambda moved: None,
        checkpoint_s=60.0,
        stale_after_s=300.0,
        doubt_s=20.0,
        **settings,  # type: ignore[arg-type]
    )


def test_a_node_is_matched_by_name_keeps_its_id_and_draws_a_new_incarnation(world: World) -> None:
    first, second = Agent(world, "again"), Agent(world, "again")
    assert first.id == second.id
    assert (first.incarnation, second.incarnation) == (1, 2)
    assert first.registered.node_token != second.registered.node_token
    assert not world.nodes.check_credential(first.id, first.registered.node_token), "the older credential has ended"
    assert world.nodes.check_credential(second.id, second.registered.node_token)


def test_only_the_hash_of_the_credential_is_stored_and_never_shown(world: World) -> None:
    agent = Agent(world)
    (row,) = world.sql("SELECT * FROM nodes WHERE id = %(id)s", id=agent.id)
    assert agent.registered.node_token not in {str(value) for value in row.values()}
    shown = world.nodes.get(agent.id)
    assert shown is not None
    assert not [key for key in shown.to_json() if "credential" in key or "token" in key]
    assert not world.nodes.check_credential(new_id(), agent.registered.node_token)
    assert not world.nodes.check_credential("not-an-id", "x")


def test_a_registration_ends_what_older_lives_ran_in_one_transaction(world: World, agent: Agent) -> None:
    control = Control(world)
    served, _, _ = serving_load(world, control, [agent], "older-served")
    running = placed_load(world, control, "older-running")
    agent.claim(running)
    stopping = placed_load(world, control, "older-stopping")
    agent.claim(stopping)
    world.cancels.cancel(stopping.id)
    unclaimed = placed_load(world, control, "older-unclaimed")
    before = world.replicas.routing_version()
    again = Agent(world, agent.name)
    row = world.job(running.id)
    assert (row.state, row.error_cause, row.stop_state) == (State.FAILED, "worker_restarted", StopState.CONFIRMED)
    assert world.job(stopping.id).stop_state == StopState.CONFIRMED
    assert [world.replica(m) for m in ("older-served", "older-running", "older-stopping")] == [None] * 3
    assert world.job(served.id).state == State.SUCCEEDED
    assert world.replicas.routing_version() > before
    still = world.job(unclaimed.id)
    assert (still.state, still.node_incarnation) == (State.RUNNING, None)
    assert world.replica("older-unclaimed") is not None
    again.claim(still)
    assert again.report().operations[0].answer is Answer.KEEP


def test_a_new_node_waits_for_approval_unless_it_is_named_or_all_are(world: World) -> None:
    strict, named = _service(world), _service(world, approve_names=["mine"])
    assert strict.register(Registration(name=f"n-{new_id()}")).status == "pending"
    assert named.register(Registration(name="mine")).status == "healthy"
    waiting = strict.register(Registration(name="waiting"))
    approved = strict.approve(waiting.id)
    assert (approved.status, approved.approved) == ("healthy", True)
    assert strict.approve(waiting.id).status == "healthy"
    assert strict.register(Registration(name="waiting")).status == "healthy", "an approval outlives a restart"
    with pytest.raises(NotFound):
        strict.approve(new_id())


def test_nd_01_labels_are_merged_and_an_administrator_s_limit_stays(world: World) -> None:
    first = world.nodes.register(Registration(name="nd-01", labels={"zone": "a"}))
    world.sql(
        'UPDATE nodes SET labels = labels || \'{"by": "admin"}\', max_replicas_per_model = 3, '
        "max_replicas_set_by_admin = true WHERE id = %(id)s",
        id=first.id,
    )
    world.nodes.register(Registration(name="nd-01", labels={"zone": "b"}, max_replicas_per_model=1))
    shown = world.nodes.get(first.id)
    assert shown is not None
    assert (shown.labels["zone"], shown.labels["by"], shown.labels["node.name"]) == ("b", "admin", "nd-01")
    assert (shown.max_replicas_per_model, shown.max_replicas_set_by_admin) == (3, True)


def test_a_new_node_needs_a_usable_name_and_one_of_an_earlier_version_keeps_its_own(world: World) -> None:
    with pytest.raises(BadInput, match=r"^name: 'my node' cannot be used; accepted: 1 to 63 letters"):
        world.nodes.register(Registration(name="my node"))
    known = world.nodes.register(Registration(name="my-node"))
    world.sql("UPDATE nodes SET name = 'my node' WHERE id = %(id)s", id=known.id)
    assert world.nodes.register(Registration(name="my node")).id == known.id


def test_nd_02_a_figure_that_was_not_read_keeps_its_last_value(world: World) -> None:
    agent = Agent(world, total_ram=8 * GIB, available_ram=6 * GIB, total_disk=100 * GIB)
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures(available_ram=2 * GIB))
    shown = world.nodes.get(agent.id)
    assert shown is not None
    assert (shown.total_ram, shown.available_ram, shown.total_disk) == (8 * GIB, 2 * GIB, 100 * GIB)


def test_nd_02_a_cpu_sample_that_failed_keeps_the_last_one_in_heartbeats_and_registrations(world: World) -> None:
    service = _service(world, auto_approve=True)
    figures = Figures(cpu_logical_cores=4, cpu_usage_percent=37.5, cpu_load_1=2.25)
    registered = service.register(Registration(name="cpu-sample", figures=figures))
    world.sql("UPDATE nodes SET last_heartbeat = last_heartbeat - interval '61 s' WHERE id = %(id)s", id=registered.id)
    service.heartbeat(registered.id, registered.incarnation, Figures(available_ram=1))
    for _ in range(2):
        shown = world.nodes.get(registered.id)
        assert shown is not None
        assert (shown.cpu_logical_cores, shown.cpu_usage_percent, shown.cpu_load_1) == (4, 37.5, 2.25)
        service.register(Registration(name="cpu-sample"))


def test_nd_03_a_heartbeat_without_news_is_held_until_the_checkpoint(world: World) -> None:
    agent = Agent(world, total_ram=8 * GIB, available_ram=6 * GIB)

    def beat(**figures: int) -> bool:
        before = world.sql("SELECT xmin::text FROM nodes WHERE id = %(id)s", id=agent.id)
        world.nodes.heartbeat(agent.id, agent.incarnation, Figures(**figures))
        return bool(world.sql("SELECT xmin::text FROM nodes WHERE id = %(id)s", id=agent.id) != before)

    assert beat(available_ram=6 * GIB), "the first beat this frontend sees"
    assert not beat(available_ram=6 * GIB)
    assert not beat(available_ram=6 * GIB - 200 * 1024**2)
    assert beat(available_ram=6 * GIB - 300 * 1024**2)
    assert not beat(available_ram=6 * GIB - 400 * 1024**2), "measured from what was written"
    world.sql("UPDATE nodes SET last_heartbeat = last_heartbeat - interval '61 seconds' WHERE id = %(id)s", id=agent.id)
    assert beat(available_ram=6 * GIB - 400 * 1024**2)


def test_a_heartbeat_of_another_incarnation_or_of_an_unknown_node_is_refused(world: World) -> None:
    agent = Agent(world)
    again = Agent(world, agent.name)
    with pytest.raises(Replaced):
        world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    assert world.nodes.heartbeat(again.id, again.incarnation, Figures()) == "healthy"
    assert world.nodes.heartbeat(again.id, None, Figures()) == "healthy"
    for unknown in (new_id(), "not-an-id"):
        with pytest.raises(NotFound):
            world.nodes.heartbeat(unknown, 1, Figures())


def test_a_silent_node_goes_offline_and_comes_back_with_a_fresh_heartbeat(world: World, agent: Agent) -> None:
    control = Control(world)
    serving_load(world, control, [agent], "silent")
    world.sql("UPDATE nodes SET last_heartbeat = last_heartbeat - interval '6 minutes' WHERE id = %(id)s", id=agent.id)
    world.nodes.give_up_silent()
    world.nodes.take_back()
    assert world.nodes.get(agent.id).status == "offline"  # type: ignore[union-attr]
    assert [r for r in world.replicas.routing_snapshot().replicas if r.model == "silent"] == []
    assert world.replica("silent") is not None, "silence deletes nothing"
    world.nodes.give_up_silent()
    world.nodes.take_back()
    assert world.nodes.get(agent.id).status == "offline"  # type: ignore[union-attr]
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    world.nodes.give_up_silent()
    world.nodes.take_back()
    assert world.nodes.get(agent.id).status == "healthy"  # type: ignore[union-attr]
    assert [r.model for r in world.replicas.routing_snapshot().replicas if r.model == "silent"] == ["silent"]


def test_nd_04_a_node_that_left_stays_away_until_it_registers_and_keeps_its_approval(world: World) -> None:
    agent = Agent(world)
    world.nodes.deregister(agent.id, agent.incarnation)
    world.nodes.give_up_silent()
    world.nodes.take_back()
    shown = world.nodes.get(agent.id)
    assert shown is not None
    assert (shown.status, shown.approved) == ("offline", True)
    again = Agent(world, agent.name)
    assert (again.id, again.registered.status) == (agent.id, "healthy")
    with pytest.raises(Replaced):
        world.nodes.deregister(agent.id, agent.incarnation)


def _asks(name: str, secret: str | None, place: str = "a") -> Registration:
    secret_hash = None if secret is None else hash_of(secret)
    return Registration(name=name, address=f"{place}:1", http_address=f"{place}:2", secret_hash=secret_hash)


def test_a_stranger_is_refused_while_the_node_reports_and_the_row_shows_it(world: World) -> None:
    own = world.nodes.register(_asks("taken", "own"))
    for stranger in (_asks("taken", "other", "b"), _asks("taken", None, "b")):
        with pytest.raises(NodeNameTaken, match=r"a:1 .*b:1"):
            world.nodes.register(stranger)
    shown = world.nodes.require(own.id).to_json()
    assert shown["refused_registration"]["address"] == "b:1"
    assert shown["refused_registration"]["at"].endswith("Z")
    assert (shown["incarnation"], shown["address"], shown["status"]) == (1, "a:1", "healthy")
    assert world.nodes.heartbeat(own.id, own.incarnation, Figures()) == "healthy"
    again = world.nodes.register(_asks("taken", "own", "c"))
    assert (again.id, again.incarnation, again.status) == (own.id, 2, "healthy")
    assert "own" not in str(world.sql("SELECT secret_hash FROM nodes WHERE id = %(id)s", id=own.id))


def test_a_silent_name_without_its_secret_waits_for_an_approval_again(world: World) -> None:
    strict = _service(world)
    own = strict.register(_asks("lost", "own"))
    strict.approve(own.id)
    strict.deregister(own.id, own.incarnation)
    other = strict.register(_asks("lost", "other", "b"))
    assert (other.id, other.status) == (own.id, "pending")
    shown = world.nodes.require(own.id).to_json()
    assert "a:1" in shown["pending_reason"] and "b:1" in shown["pending_reason"]
    assert strict.register(_asks("lost", "other", "b")).status == "pending", "its restart is no approval"
    assert world.nodes.require(own.id).pending_reason == shown["pending_reason"]
    assert "pending_reason" not in strict.approve(own.id).to_json()
    assert strict.register(_asks("lost", "other", "b")).status == "healthy"


def test_another_host_alone_makes_a_node_wait_for_approval_again_and_its_settings_still_count(world: World) -> None:
    strict = _service(world)
    own = strict.register(_asks("moves", "own"))
    strict.approve(own.id)
    moved = strict.register(_asks("moves", "own", "b"))
    assert (moved.id, moved.status) == (own.id, "pending")
    shown = world.nodes.require(own.id).to_json()
    assert all(text in shown["pending_reason"] for text in ("a:1", "b:1", "host"))
    assert strict.register(_asks("moves", "own", "b")).status == "pending", "its restart is no approval"
    strict.approve(own.id)
    assert strict.register(_asks("moves", "own", "b")).status == "healthy"
    assert _service(world, approve_names=["moves"]).register(_asks("moves", "own", "c")).status == "healthy"
    assert _service(world, auto_approve=True).register(_asks("moves", "own", "d")).status == "healthy"


def test_a_replaced_credential_is_known_for_what_it_is(world: World) -> None:
    lives = [world.nodes.register(_asks("replaced", "own", host)) for host in ("a", "a", "b")]
    node = lives[0].id
    assert [world.nodes.heard_of_replaced(node, life.node_token) for life in lives] == [True, True, False]
    assert not world.nodes.heard_of_replaced(node, "another")
    assert not world.nodes.heard_of_replaced("no-id", "another")
    with pytest.raises(NodeNameTaken, match="copy"):  # an agent of the life before lives: two workers
        world.nodes.register(_asks("replaced", "own", "a"))
    assert world.nodes.check_secret(node, "own-text") is False
    world.sql("UPDATE nodes SET secret_hash = %(hash)s WHERE id = %(id)s", id=node, hash=hash_of("own-text"))
    assert world.nodes.check_secret(node, "own-text") is True


def test_the_number_of_nodes_that_wait_for_approval_is_bounded(world: World) -> None:
    strict = _service(world)
    known = strict.register(Registration(name="waits"))
    world.sql(
        "INSERT INTO nodes (id, name, node_type, status, approved, incarnation, credential_hash) "
        "SELECT gen_random_uuid(), 'flood-' || n, 'backend', 'pending', false, 1, 'x' FROM generate_series(1, 1000) n"
    )
    try:
        with pytest.raises(TooManyPendingNodes, match="1000 nodes wait for approval"):
            strict.register(Registration(name="one-more"))
        assert strict.register(Registration(name="waits")).id == known.id
        assert _service(world, auto_approve=True).register(Registration(name="let-in")).status == "healthy"
    finally:
        world.sql("DELETE FROM nodes WHERE name LIKE 'flood-%%'")
    assert strict.register(Registration(name="one-more")).status == "pending"


def test_registrations_do_not_gather_labels_without_a_bound(world: World) -> None:
    def labelled(first: int, count: int) -> Registration:
        return Registration(name="labels", labels={f"k{number}": "v" for number in range(first, first + count)})

    world.nodes.register(labelled(0, 60))
    assert world.nodes.register(labelled(0, 64)).incarnation == 2
    with pytest.raises(BadInput, match="65 labels"):
        world.nodes.register(labelled(1, 64))


def test_a_join_token_lets_one_worker_in_and_is_its_own_from_then_on(world: World) -> None:
    strict, tokens = _service(world), Invitations(world.unit_of_work)
    replaced, made = tokens.invite("invited", 3600), tokens.invite("invited", 3600)
    assert (tokens.knows(made.token), tokens.knows(replaced.token), tokens.knows("join-x")) == (True, False, False)
    assert made.token not in str(world.sql("SELECT * FROM join_tokens"))
    shown = hash_of(made.token)
    with pytest.raises(JoinTokenRefused):
        strict.register(_asks("another", "own"), shown)
    joined = strict.register(_asks("invited", "own"), shown)
    assert joined.status == "healthy", "the invitation is the approval"
    assert strict.register(_asks("invited", "own"), shown).incarnation == 2
    assert strict.log_key(joined.id) != "" and strict.log_key(new_id()) == ""
    with pytest.raises(NodeNameTaken):
        strict.register(_asks("invited", "other"), shown)
    strict.deregister(joined.id, 2)
    with pytest.raises(JoinTokenRefused, match="another worker"):
        strict.register(_asks("invited", "other"), shown)
    assert strict.register(_asks("invited", "own", "b"), shown).status == "pending", "another host, no new invitation"
    again = tokens.invite("invited", 60)
    strict.deregister(joined.id, 3)
    assert strict.register(_asks("invited", "new", "c"), hash_of(again.token)).status == "healthy"
    expired = tokens.invite("late-guest", 60)
    world.sql("UPDATE join_tokens SET expires_at = clock_timestamp() WHERE node_name = 'late-guest'")
    with pytest.raises(JoinTokenRefused, match="expired"):
        strict.register(_asks("late-guest", "own"), hash_of(expired.token))
    world.sql("DELETE FROM nodes WHERE id = %(id)s", id=joined.id)
    assert not tokens.knows(again.token), "a removed node needs a new invitation"
    with pytest.raises(BadInput):
        tokens.invite("no name", 60)


def test_a_row_without_a_secret_is_bound_by_the_first_one_that_comes(world: World) -> None:
    first = world.nodes.register(_asks("older", None))
    assert world.nodes.register(_asks("older", None, "b")).incarnation == 2
    assert world.nodes.register(_asks("older", "own", "b")).incarnation == 3
    with pytest.raises(NodeNameTaken):
        world.nodes.register(_asks("older", None, "b"))
    assert world.nodes.require(first.id).incarnation == 3


def test_an_older_incarnation_that_lives_shows_that_the_secret_was_copied(world: World) -> None:
    own = world.nodes.register(_asks("copied", "own"))
    copy = world.nodes.register(_asks("copied", "own", "b"))
    with pytest.raises(Replaced):
        world.nodes.heartbeat(own.id, own.incarnation, Figures())
    with pytest.raises(NodeNameTaken, match="copy"):
        world.nodes.register(_asks("copied", "own", "a"))
    assert world.nodes.register(_asks("copied", "own", "b")).incarnation == 3
    with pytest.raises(NodeNameTaken, match="copy"):
        world.nodes.register(_asks("copied", "own", "a"))
    world.nodes.deregister(copy.id, 3)
    assert world.nodes.register(_asks("copied", "own", "a")).incarnation == 4


def test_a_late_heartbeat_at_the_same_address_is_no_copy(world: World) -> None:
    own = world.nodes.register(_asks("late", "own"))
    world.nodes.register(_asks("late", "own"))
    with pytest.raises(Replaced):
        world.nodes.heartbeat(own.id, own.incarnation, Figures())
    assert world.nodes.register(_asks("late", "own", "b")).incarnation == 3


def test_the_approval_of_a_name_goes_to_the_secret_that_the_settings_name(world: World) -> None:
    cautious = _service(world, approve_names=["here"], vouched_hash=hash_of("own"))
    stranger = cautious.register(_asks("here", "other", "b"))
    assert stranger.status == "pending"
    own = cautious.register(_asks("here", "own"))
    assert (own.id, own.status) == (stranger.id, "healthy"), "the stranger reports, and needs the secret"
    by_name = _service(world, approve_names=["there"])
    left = by_name.register(_asks("there", "own"))
    assert left.status == "healthy"
    by_name.deregister(left.id, left.incarnation)
    assert by_name.register(_asks("there", "other", "b")).status == "pending"


def test_a_doubted_node_stays_if_a_heartbeat_comes_and_is_unhealthy_if_none_does(world: World, agent: Agent) -> None:
    control = Control(world)
    _, _, instance = serving_load(world, control, [agent], "doubted")
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())

    def pass_doubt_window() -> None:
        world.sql("UPDATE nodes SET doubted_at = doubted_at - interval '21 seconds' WHERE id = %(id)s", id=agent.id)
        world.nodes.give_up_doubted()

    world.nodes.doubt(agent.id)
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    pass_doubt_window()
    assert world.nodes.require(agent.id).status == "healthy", "the first heartbeat after the doubt was written"

    world.nodes.doubt(agent.id)
    world.nodes.give_up_doubted()
    assert world.nodes.require(agent.id).status == "healthy", "a heartbeat may still come"
    pass_doubt_window()
    assert world.nodes.require(agent.id).status == "unhealthy"
    assert [r for r in world.replicas.routing_snapshot().replicas if r.model == "doubted"] == []
    world.nodes.doubt(agent.id)
    another = Agent(world)
    job = placed_load(world, control, "doubted")
    assert (job.node_id, job.slot) == (another.id, 1), "placed elsewhere, beside the row of the old replica"

    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    world.nodes.take_back()
    assert world.nodes.require(agent.id).status == "healthy"
    back = [r.process_instance for r in world.replicas.routing_snapshot().replicas if r.model == "doubted"]
    assert back == [instance], "the replica that lived on serves again"
