"""The env of a model's config reaches its worker with the claim and no row; a node reads only what it stages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localai.errors import RevisionAbsent
from localai.jobs.job import State
from localai.jobs.operation_rules import OpState
from localai.jobs.rows import SQL
from tests.integration.world import Agent, Control, World, placed_load, plain_plan, staged

pytestmark = pytest.mark.integration

ENV = {"HF_TOKEN": "private-value", "MODE": "fast"}


@pytest.fixture(autouse=True)
def no_other_nodes(world: World) -> None:
    """Loads are placed on the agent of the test."""
    for node in world.nodes.list():
        world.nodes.deregister(node.id)


def _with_env(world: World, model: str) -> None:
    world.plans.plans[model] = replace(plain_plan(model), env=ENV)


def test_an_order_gets_the_env_of_its_config_at_the_claim_and_no_row_has_it(world: World) -> None:
    _with_env(world, "env-claim")
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "env-claim")
    assert agent.claim(job).env == ENV
    assert agent.claim(job).env == ENV, "asked again, such as after the death of a frontend"
    for table in ("jobs", "job_events", "replicas", "subjects"):
        assert "private-value" not in str(world.sql(f"SELECT * FROM {table}")), table
    assert world.job(job.id).args["order"]["env_names"] == ["HF_TOKEN", "MODE"]


def test_a_frontend_without_the_config_of_that_revision_grants_nothing(world: World) -> None:
    _with_env(world, "env-edited")
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "env-edited")
    world.plans.revisions["env-edited"] = "r2"
    with pytest.raises(RevisionAbsent):
        agent.claim(job)
    assert world.job(job.id).op_state == OpState.SENT
    assert control.step(job.id).state == State.RUNNING, "the worker has had no time yet"
    world.sql("UPDATE jobs SET placed_at = placed_at - interval '3 seconds' WHERE id = %(id)s", id=job.id)
    failed = control.step(job.id)
    assert (failed.state, failed.error_cause) == (State.FAILED, "revision_changed")


def test_an_order_of_an_older_frontend_keeps_its_env_until_its_job_ended(world: World) -> None:
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "env-older")
    world.sql("UPDATE jobs SET args = jsonb_set(args, '{order,env}', '{\"A\": \"b\"}') WHERE id = %(id)s", id=job.id)
    assert agent.claim(job).env == {"A": "b"}
    world.sweeps.prune(1e9, 10)
    assert world.job(job.id).args["order"]["env"] == {"A": "b"}
    world.cancels.cancel(job.id)
    agent.end(job)
    world.sweeps.prune(1e9, 10)
    assert world.job(job.id).args["order"]["env"] == {}


def test_a_pass_over_all_jobs_reads_no_config(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder may be on a disk that does not answer, and the pass is of every job."""
    _with_env(world, "env-disk")
    Agent(world)
    control = Control(world)
    job = placed_load(world, control, "env-disk")
    world.sql("UPDATE jobs SET placed_at = placed_at - interval '3 seconds' WHERE id = %(id)s", id=job.id)
    looks: list[str] = []
    monkeypatch.setattr(world.plans, "holds", lambda model, revision: looks.append(model) or True)
    assert control.stepper.due(world.job(job.id))
    assert looks == []
    assert control.step(job.id).state == State.RUNNING
    assert looks == ["env-disk"]


def test_the_pass_that_takes_env_from_ended_jobs_reads_the_youngest_only(world: World) -> None:
    for name in ("scrub_env", "prune_jobs"):
        with world.unit_of_work() as uow:
            uow.execute("SET LOCAL enable_seqscan = off")
            plan = "\n".join(row[0] for row in uow.execute(f"EXPLAIN {SQL[name]}", {"older_than": 1.0, "limit": 10}))
        assert "jobs_ended" in plan and "Index Cond: (finished_at " in plan, plan


def test_a_node_is_given_the_files_of_its_own_running_operations_only(world: World) -> None:
    world.plans.plans["env-files"] = plain_plan("env-files", files=staged(5))
    agent, control = Agent(world), Control(world)
    job = placed_load(world, control, "env-files")
    other = Agent(world)
    gives = world.operations.gives
    assert not gives(agent.id, "model.gguf"), "not claimed"
    agent.claim(job)
    assert gives(agent.id, "model.gguf")
    assert not gives(agent.id, "other.gguf")
    assert not gives(agent.id, "model.gguf\0")
    assert not gives(other.id, "model.gguf")
    world.cancels.cancel(job.id)
    assert not gives(agent.id, "model.gguf"), "its job has ended"
