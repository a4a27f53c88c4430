"""How a process that no row owns is ended by its name, over the node link or by the answer to a report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localai.ids import new_id
from localai.jobs.job import State
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.operation_rules import StopAnswer, StopOutcome
from localai.jobs.ports import JobFilter
from tests.integration.world import Agent, Control, World, serving_load

pytestmark = pytest.mark.integration


def _answers(world: World, agent: Agent, outcome: StopOutcome) -> list[dict[str, object]]:
    asked: list[dict[str, object]] = []
    answer = StopAnswer(outcome=outcome, incarnation=agent.incarnation)

    def stop(payload: object) -> dict[str, object]:
        asked.append(payload)  # type: ignore[arg-type]
        return answer.to_json()

    world.bus.serve(agent.id, "model.stop", stop)
    return asked


def _cleanup(world: World, instance: str) -> str:
    (job,) = world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, subject=instance))
    return job.id


def _orphan(world: World, control: Control, agent: Agent, model: str) -> tuple[str, str]:
    job, _, instance = serving_load(world, control, [agent], model)
    world.sql("DELETE FROM replicas WHERE job_id = %(id)s", id=job.id)
    agent.report()
    return instance, _cleanup(world, instance)


def _obeys(world: World, agent: Agent) -> list[Any]:
    """The requests to the node, which ends what they name."""
    asked: list[Any] = []

    def stop(payload: Any) -> dict[str, object]:
        asked.append(payload)
        return agent.obey(payload)

    world.bus.serve(agent.id, "model.stop", stop)
    return asked


def test_an_orphan_is_stopped_by_instance(world: World, agent: Agent) -> None:
    control = Control(world)
    instance, job_id = _orphan(world, control, agent, "orphan")
    asked = _obeys(world, agent)
    assert control.step(job_id).state == State.SUCCEEDED
    assert [request["process_instance"] for request in asked] == [instance]


@pytest.mark.parametrize("outcome", list(StopOutcome))
def test_a_forged_answer_of_the_bus_leaves_the_cleanup_to_the_next_report(
    world: World, agent: Agent, outcome: StopOutcome
) -> None:
    control = Control(world)
    instance, job_id = _orphan(world, control, agent, f"forged-{outcome.value}")
    asked = _answers(world, agent, outcome)
    assert control.step(job_id).state == State.RUNNING
    control.step(job_id)
    assert len(asked) == 1, "stops are sent with back-off"
    assert agent.report().stop_processes == (instance,)
    del agent.processes[instance]
    agent.report()
    assert world.job(job_id).state == State.SUCCEEDED


def test_without_a_node_link_the_answer_to_the_report_does_it(world: World, agent: Agent) -> None:
    control = Control(world)
    instance, job_id = _orphan(world, control, agent, "no-link")
    assert control.step(job_id).state == State.RUNNING
    assert agent.report().stop_processes == (instance,)


def test_a_cleanup_whose_owner_is_lost_is_taken_by_another_as_often_as_it_takes(world: World, agent: Agent) -> None:
    control = Control(world)
    _, job_id = _orphan(world, control, agent, "owner-lost")
    for _ in range(5):
        Control(world).step(job_id)
        world.lapse(job_id)
        Control(world).sweep.run_once()
    assert world.job(job_id).state in (State.QUEUED, State.RUNNING)
    _obeys(world, agent)
    assert Control(world).step(job_id).state == State.SUCCEEDED


def test_an_orphan_makes_one_job_however_often_it_is_reported(world: World, agent: Agent) -> None:
    control = Control(world)
    instance, _ = _orphan(world, control, agent, "reported-often")
    for _ in range(3):
        agent.report()
    assert len(world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, subject=instance))) == 1


def test_a_process_of_a_job_nobody_knows_is_an_orphan_too(world: World, agent: Agent) -> None:
    control = Control(world)
    job, _, instance = serving_load(world, control, [agent], "restored-database")
    process = agent.processes.pop(instance)

    stranger = replace(process, process_instance=new_id(), job_id=new_id())
    agent.processes[stranger.process_instance] = stranger
    agent.report()
    assert agent.report().stop_processes == (stranger.process_instance,)
    assert job.state == State.SUCCEEDED


def test_a_replica_row_of_a_cleaned_process_goes_with_it(world: World, agent: Agent) -> None:
    control = Control(world)
    serving_load(world, control, [agent], "row-goes")
    world.load_rows.revise("row-goes", "r2")
    world.cleaning.run()
    replica = world.replica("row-goes")
    assert replica is not None and replica["state"] == "unloading"
    _obeys(world, agent)
    control.step(_cleanup(world, replica["process_instance"]))
    assert world.replica("row-goes") is None
    world.cleaning.run()
    assert len(world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, subject=replica["process_instance"]))) == 1
