"""Nodes that are drained, resumed, removed or relieved of one model, by HTTP over real rows, tables and feeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localai.errors import NodeRemoved, WorkerRefused
from localai.jobs.job import State, StopState
from localai.jobs.kinds import NODE_DRAIN, REPLICA_CLEANUP
from localai.jobs.ports import JobFilter
from localai.nodes.rules import Figures
from tests.fakes.web import WebBench
from tests.integration.jobs.frontends import Frontend
from tests.integration.world import Agent, Control, World, in_thread, placed_load, serving_load
from tests.loopback import eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def web(world: World, tmp_path: Path) -> WebBench:
    """The routes over the world's rows; wake-ups are delivered by the test or never."""
    bench = WebBench(tmp_path, unloads=world.unloads, drains=world.node_drains, replicas=world.replicas)
    bench.nodes.require = world.nodes.require  # type: ignore[attr-defined]
    bench.nodes.list = world.nodes.list  # type: ignore[attr-defined]
    return bench


def status(world: World, agent: Agent) -> str:
    return world.nodes.require(agent.id).status


def stops(world: World, agent: Agent) -> list[Any]:
    """What the node is asked to stop; it says what became of it."""
    asked: list[Any] = []

    def stop(payload: Any) -> dict[str, object]:
        asked.append(payload)
        return agent.obey(payload)

    world.bus.serve(agent.id, "model.stop", stop)
    return asked


def drain(web: WebBench, agent: Agent) -> str:
    answer = web.post(f"/api/nodes/{agent.id}/drain", None)
    assert answer.status_code == 200 and answer.get_json()["message"] == "node set to draining"
    return str(answer.get_json()["job_id"])


def clean(world: World, control: Control, instance: str) -> None:
    """Carry the cleanup of a process to its end."""
    control.sweep.run_once()
    (cleanup,) = world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, subject=instance))
    control.step(cleanup.id)


def test_sc_06_a_drain_cancels_the_load_lets_the_stream_finish_and_takes_the_idle_replica(
    world: World, control: Control, agent: Agent, web: WebBench, frontend: Frontend
) -> None:
    streaming = serving_load(world, control, [agent], "sc06-stream")[2]
    idle = serving_load(world, control, [agent], "sc06-idle")[2]
    frontend.feed.step()
    request = frontend.pick("sc06-stream")
    load = placed_load(world, control, "sc06-load")
    agent.claim(load)
    before = world.replicas.routing_version()

    job_id = drain(web, agent)
    assert status(world, agent) == "draining"
    frontend.feed.step()
    assert world.replicas.routing_version() > before and not frontend.table.holds("sc06-idle"), "unroutable at once"
    asked = stops(world, agent)
    control.step(job_id)
    assert (world.job(load.id).state, world.job(load.id).stop_state) == (State.CANCELLED, StopState.PENDING)
    assert [world.replica(m)["state"] for m in ("sc06-stream", "sc06-idle", "sc06-load")] == ["unloading"] * 3  # type: ignore[index]
    control.step(load.id)
    assert [stop["job_id"] for stop in asked] == [load.id], "the same stop path: a committed doomed row"
    frontend.feed.step()
    clean(world, control, idle)
    assert asked[-1]["process_instance"] == idle
    assert control.step(job_id).state == State.RUNNING
    assert str(world.job(job_id).message).startswith(f"sc06-stream: 1 request in flight on {agent.name}, cut at ")
    assert not world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, subject=streaming)), "nothing cuts the stream"

    request.release()
    frontend.feed.step()
    clean(world, control, streaming)
    done = control.step(job_id)
    assert (done.state, done.subject) == (State.SUCCEEDED, agent.name)
    assert world.replicas.list_for_node(agent.id) == []
    assert [child.subject for child in world.job_service.children(job_id)] != [], "the stops are its children"
    assert status(world, agent) == "draining", "it stays out of use"


def test_sc_06_nothing_is_placed_on_a_draining_node_and_heartbeats_and_registrations_change_that_not(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    drain(web, agent)
    ticket = world.loads.request("sc06-elsewhere", "r1")
    assert control.step(ticket.job_id).op_generation is None
    assert f"{agent.name}: is draining" in str(world.job(ticket.job_id).error)
    assert world.nodes.heartbeat(agent.id, agent.incarnation, Figures()) == "draining"
    again = Agent(world, agent.name)
    assert (again.registered.status, status(world, again)) == ("draining", "draining")
    world.nodes.approve(again.id)
    world.sql("UPDATE nodes SET last_heartbeat = last_heartbeat - interval '6 minutes' WHERE id = %(id)s", id=again.id)
    world.nodes.give_up_silent()
    world.nodes.take_back()
    assert status(world, again) == "offline"
    world.nodes.heartbeat(again.id, again.incarnation, Figures())
    world.nodes.give_up_silent()
    world.nodes.take_back()
    assert status(world, again) == "draining", "it comes back as it went"


def test_resume_lets_work_in_again_and_calls_the_drain_off(
    world: World, control: Control, agent: Agent, web: WebBench, frontend: Frontend
) -> None:
    serving_load(world, control, [agent], "resumed")
    frontend.feed.step()
    request = frontend.pick("resumed")
    job_id = drain(web, agent)
    control.step(job_id)
    answer = web.post(f"/api/nodes/{agent.id}/resume", None)
    assert (answer.status_code, answer.get_json()) == (200, {"message": "node resumed", "job_id": job_id})
    assert (world.job(job_id).state, world.job(job_id).held) == (State.CANCELLED, False)
    assert status(world, agent) == "healthy"
    assert web.post(f"/api/nodes/{agent.id}/resume", None).get_json()["job_id"] is None, "a repeat changes nothing"
    replica = world.replica("resumed")
    assert replica is not None and replica["state"] == "unloading", "what was marked does not come back"
    load, _, _ = serving_load(world, control, [agent], "resumed")
    assert load.slot == 1
    request.release()
    assert drain(web, agent) != job_id, "it may be drained again at once"


def test_a_drain_is_one_job_however_often_it_is_asked_for_and_another_owner_goes_on_with_it(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    load = placed_load(world, control, "one-drain")
    agent.claim(load)
    job_id = drain(web, agent)
    assert drain(web, agent) == job_id
    control.step(job_id)
    world.lapse(job_id)
    world.sweeps.lapse(100)
    assert world.job(job_id).state == State.QUEUED
    agent.end(load)
    assert Control(world).step(job_id).state == State.SUCCEEDED


def test_a_placement_that_commits_before_the_drain_is_found_by_it(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    """The drain waits at the node's row; whatever was placed until then is there for its first step."""
    ticket = world.loads.request("placed-before", "r1")
    with world.holding("SELECT 1 FROM nodes WHERE id = %(id)s FOR UPDATE", id=agent.id):
        placing, placed = in_thread(lambda: control.step(ticket.job_id))
        eventually(world.waiting_for_a_lock, "the placement at the node")
        draining, drained = in_thread(lambda: drain(web, agent))
        eventually(lambda: world.waiting_for_a_lock() == 2, "the drain at the node")
    placing.join(30)
    draining.join(30)
    assert not [found for found in (*placed, *drained) if isinstance(found, BaseException)]
    control.step(str(drained[0]))
    load = world.job(ticket.job_id)
    assert (load.node_id, load.state) in [(agent.id, State.CANCELLED), (None, State.RUNNING)]
    assert world.replicas.list_for_node(agent.id) == []


def test_a_load_that_finishes_on_a_draining_node_is_taken_away_by_the_next_step(
    world: World, control: Control, agent: Agent, web: WebBench, frontend: Frontend
) -> None:
    load = placed_load(world, control, "finishes-late")
    agent.claim(load)
    agent.become_ready(load)
    job_id = drain(web, agent)
    assert control.step(load.id).state == State.SUCCEEDED
    frontend.feed.step()
    assert not frontend.table.holds("finishes-late"), "never routable: its node is drained"
    control.step(job_id)
    replica = world.replica("finishes-late")
    assert replica is not None and replica["state"] == "unloading"


# Removal


def test_a_removed_node_goes_with_its_credential_and_its_name_may_register_again(
    world: World, control: Control, agent: Agent, web: WebBench, frontend: Frontend
) -> None:
    instance = serving_load(world, control, [agent], "removed")[2]
    frontend.feed.step()
    answer = web.client.delete(f"/api/nodes/{agent.id}", headers=web.key())
    assert (answer.status_code, "is being removed" in answer.get_json()["message"]) == (202, True)
    job_id = answer.get_json()["job_id"]
    control.step(job_id)
    assert world.nodes.require(agent.id).drain is not None, "the node says which job removes it"
    assert world.nodes.require(agent.id).to_json()["drain"]["removing"] is True
    stops(world, agent)
    frontend.feed.step()
    clean(world, control, instance)
    assert control.step(job_id).state == State.SUCCEEDED
    assert world.nodes.get(agent.id) is None
    with pytest.raises(NodeRemoved):
        world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    assert not world.nodes.check_credential(agent.id, agent.registered.node_token)
    again = Agent(world, agent.name)
    assert (again.id != agent.id, again.incarnation, again.registered.status) == (True, 1, "healthy")
    assert web.client.delete(f"/api/nodes/{agent.id}", headers=web.key()).status_code == 404


def test_a_drain_becomes_a_removal_and_an_empty_node_goes_at_once(
    world: World, control: Control, agent: Agent, web: WebBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = drain(web, agent)
    monkeypatch.setattr(world.wakeups, "wake_control", control.stepper.step)
    answer = web.client.delete(f"/api/nodes/{agent.id}", headers=web.key())
    assert (answer.status_code, answer.get_json()) == (200, {"message": "node deregistered", "job_id": job_id})
    assert world.nodes.get(agent.id) is None


@pytest.mark.parametrize("how", ["offline", "force"])
def test_a_node_that_nobody_hears_of_goes_without_proof_and_holds_no_model_longer(
    world: World, control: Control, agent: Agent, web: WebBench, how: str
) -> None:
    serving_load(world, control, [agent], f"served-{how}")
    load = placed_load(world, control, f"loading-{how}")
    agent.claim(load)
    if how == "offline":
        world.nodes.deregister(agent.id, agent.incarnation)
    query = "?force=true" if how == "force" else ""
    job_id = web.client.delete(f"/api/nodes/{agent.id}{query}", headers=web.key()).get_json()["job_id"]
    assert control.step(job_id).state == State.SUCCEEDED
    assert world.nodes.get(agent.id) is None and world.replica(f"served-{how}") is None
    doomed = world.job(load.id)
    assert (doomed.state, doomed.stop_state) == (State.CANCELLED, StopState.CONFIRMED)
    assert doomed.held, "its hold ends by its bound: the work may still run for as long"
    Agent(world)
    serving = world.loads.request(f"served-{how}", "r1")
    assert control.step(serving.job_id).op_generation is not None, "the model loads elsewhere"


def test_resume_calls_a_removal_off(world: World, control: Control, agent: Agent, web: WebBench) -> None:
    load = placed_load(world, control, "not-removed")
    agent.claim(load)
    job_id = web.client.delete(f"/api/nodes/{agent.id}", headers=web.key()).get_json()["job_id"]
    control.step(job_id)
    web.post(f"/api/nodes/{agent.id}/resume", None)
    agent.end(load)
    control.step(job_id)
    assert (world.job(job_id).state, status(world, agent)) == (State.CANCELLED, "healthy")


# One model on one node


def unload(web: WebBench, agent: Agent, model: object) -> Any:
    return web.post(f"/api/nodes/{agent.id}/models/unload", {"model_name": model})


def test_an_unload_on_a_node_leaves_the_other_nodes_alone(
    world: World, control: Control, agent: Agent, web: WebBench, frontend: Frontend
) -> None:
    instance = serving_load(world, control, [agent], "org/here")[2]
    frontend.feed.step()
    other = Agent(world)
    world.sql(
        "INSERT INTO replicas (id, model, slot, node_id, job_id, op_generation, backend, revision, state, address, "
        "process_instance, node_incarnation, identity) SELECT gen_random_uuid(), model, 7, %(node)s, job_id, "
        "op_generation, backend, revision, state, address, gen_random_uuid(), 1, identity FROM replicas "
        "WHERE process_instance = %(instance)s",
        node=other.id,
        instance=instance,
    )
    pending = unload(web, agent, "org/here")
    assert pending.status_code == 202
    assert pending.get_json()["message"].endswith(f"1 frontend still to confirm for {agent.name}")
    stops(world, agent)
    frontend.feed.step()
    clean(world, control, instance)
    done = unload(web, agent, "org/here")
    assert (done.status_code, done.get_json()) == (200, {"message": "model unloaded", "job_id": None})
    assert [row.node_id for row in world.replicas.list_for_node(other.id)] == [other.id], "loaded there as before"
    assert frontend.table.holds("org/here")
    assert control.step(pending.get_json()["job_id"]).state == State.SUCCEEDED


def test_sc_04_a_stop_that_the_worker_could_not_do_is_an_error_and_one_it_does_not_answer_is_pending(
    world: World, control: Control, agent: Agent, web: WebBench, frontend: Frontend
) -> None:
    instance = serving_load(world, control, [agent], "sc04-stuck")[2]
    frontend.feed.step()
    assert unload(web, agent, "sc04-stuck").status_code == 202

    def stop(_: Any) -> dict[str, object]:
        raise WorkerRefused("the process group has not ended within 15 s")

    world.bus.serve(agent.id, "model.stop", stop)
    frontend.feed.step()
    clean(world, control, instance)
    failed = unload(web, agent, "sc04-stuck")
    assert failed.status_code == 502
    assert "the process group has not ended within 15 s" in failed.get_json()["error"]["message"]
    assert failed.get_json()["error"]["type"] == "node_error"


def test_sc_01_nothing_to_unload_is_no_error_and_a_load_there_is_cancelled_first(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    assert unload(web, agent, "nobody-loaded-this").get_json()["message"] == "model unloaded"
    load = placed_load(world, control, "load-here")
    agent.claim(load)
    assert unload(web, agent, "load-here").status_code == 202
    assert world.job(load.id).state == State.CANCELLED
    agent.end(load)
    assert unload(web, agent, "load-here").status_code == 200


def test_an_unload_that_races_with_the_finish_of_a_load_leaves_nothing_that_serves(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    load = placed_load(world, control, "unload-race")
    agent.claim(load)
    agent.become_ready(load)
    with world.holding("SELECT 1 FROM subjects WHERE kind = 'model' AND name = 'unload-race' FOR UPDATE"):
        finishing, _ = in_thread(lambda: control.step(load.id))
        eventually(world.waiting_for_a_lock, "the finish at the subject")
        unloading, _ = in_thread(lambda: unload(web, agent, "unload-race"))
        eventually(lambda: world.waiting_for_a_lock() == 2, "the unload at the subject")
    finishing.join(30)
    unloading.join(30)
    assert world.job(load.id).state in (State.SUCCEEDED, State.CANCELLED)
    assert world.replica("unload-race")["state"] == "unloading"  # type: ignore[index]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/models/unload", {}),
        ("POST", "/models/unload", {"model_name": 7}),
        ("POST", "/models/unload", {"model_name": " "}),
        ("DELETE", "?force=perhaps", None),
    ],
)
def test_bad_input_is_named(agent: Agent, web: WebBench, method: str, path: str, body: Any) -> None:
    answer = web.client.open(f"/api/nodes/{agent.id}{path}", method=method, json=body, headers=web.key())
    assert answer.status_code == 400
    assert answer.get_json()["error"]["type"] == "node_error" and answer.get_json()["error"]["param"]


@pytest.mark.parametrize("node_id", ["not-an-id", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_node_is_404(world: World, web: WebBench, node_id: str) -> None:
    for path in ("drain", "resume"):
        assert web.post(f"/api/nodes/{node_id}/{path}", None).status_code == 404
    assert web.post(f"/api/nodes/{node_id}/models/unload", {"model_name": "m"}).status_code == 404
    assert web.client.delete(f"/api/nodes/{node_id}", headers=web.key()).status_code == 404
    assert world.jobs.list(JobFilter(kind=NODE_DRAIN, subject=node_id)) == []
