"""What finished loads took is kept once, for nodes of their class, and makes the ETA of the next load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localai.jobs.job import Job, State
from localai.jobs.operation_rules import OperationError, Phase
from localai.loads.durations import KEPT, MAX_AGE_S, DurationBook, PgDurations
from localai.loads.ports import NotFinished
from localai.loads.service import LoadService
from localai.nodes.rules import Figures, Registration
from tests.integration.world import Agent, Control, World, placed_load, plain_plan, staged

pytestmark = pytest.mark.integration


@pytest.fixture
def control(world: World) -> Control:
    return Control(world)


@pytest.fixture
def agent(world: World) -> Iterator[Agent]:
    """The only node that serves."""
    for node in world.nodes.list():
        world.nodes.deregister(node.id)
    yield Agent(world, cpu_logical_cores=4)


def run(world: World, control: Control, agent: Agent, model: str, **seconds: float) -> Job:
    """A load that goes through every phase and took so long in each, by the times of its moves."""
    job = placed_load(world, control, model)
    agent.claim(job)
    for number, phase in enumerate((Phase.INSTALLING, Phase.STAGING, Phase.LOADING)):
        agent.change(job, phase=phase, progress=number + 1)
    age(world, job, **seconds)
    agent.become_ready(job)
    done = control.step(job.id)
    assert done.state == State.SUCCEEDED, done.error
    world.sql("DELETE FROM replicas WHERE model = %(m)s", m=model)
    agent.processes.clear()
    agent.forget(job)
    return done


def age(world: World, job: Job, **seconds: float) -> None:
    """Move the moves of a job so far back that each phase has lasted so long."""
    before = 0.0
    for phase in ("loading", "staging", "installing", "pending"):
        before += seconds.get(phase, 0.0)
        world.sql(
            "UPDATE job_events SET at = at - make_interval(secs => %(s)s) WHERE job_id = %(id)s AND phase = %(phase)s",
            s=before, id=job.id, phase=phase,
        )  # fmt: skip


def kept(world: World, model: str) -> list[dict[str, Any]]:
    return [dict(row) for row in world.sql("SELECT * FROM load_durations WHERE model = %(m)s ORDER BY id", m=model)]


def test_a_load_that_succeeds_leaves_what_each_phase_took(world: World, control: Control, agent: Agent) -> None:
    world.plans.plans["measured"] = plain_plan("measured", files=staged(7000))
    job = run(world, control, agent, "measured", pending=2, installing=3, staging=50, loading=70)
    (row,) = kept(world, "measured")
    assert (row["job_id"], row["node_class"], row["backend"]) == (job.id, "cpu 3-4 cores", "fault")
    assert row["size_bytes"] == 7000
    took = [row[f"{phase}_s"] for phase in ("pending", "installing", "staging", "loading")]
    assert took == pytest.approx([2, 3, 50, 70], abs=1.9)


def test_a_load_that_fails_leaves_nothing_and_one_whose_commit_is_doubted_leaves_one(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "counted-once")
    agent.claim(job)
    agent.end(job, OperationError(cause="load_refused", message="no"))
    assert control.step(job.id).state == State.FAILED
    assert kept(world, "counted-once") == []
    world.end_hold(job.id)
    done = run(world, control, agent, "counted-once", loading=5)
    control.step(done.id)
    world.load_rows.finish(done, control.owner.id)
    assert len(kept(world, "counted-once")) == 1


def test_an_adopted_load_is_counted_by_the_owner_that_finishes_it_and_by_no_other(
    world: World, control: Control, agent: Agent
) -> None:
    job = placed_load(world, control, "adopted")
    agent.claim(job)
    agent.change(job, phase=Phase.LOADING, progress=1)
    world.lapse(job.id)
    heir = Control(world)
    assert job.id in [one.id for one in heir.owner.adopt(100)]
    age(world, job, loading=40)
    agent.become_ready(job)
    assert world.load_rows.finish(job, control.owner.id) is NotFinished.REPLACED
    assert kept(world, "adopted") == []
    assert heir.step(job.id).state == State.SUCCEEDED
    (row,) = kept(world, "adopted")
    assert row["loading_s"] == pytest.approx(40, abs=1.9), "the phase began under the first owner"


def test_only_the_newest_loads_of_a_class_are_kept(world: World, control: Control, agent: Agent) -> None:
    world.sql(
        "INSERT INTO load_durations (job_id, model, node_class, backend, size_bytes, pending_s, installing_s, "
        "staging_s, loading_s) SELECT gen_random_uuid(), 'pruned', c, 'fault', 0, 0, 0, 0, n "
        "FROM generate_series(1, %(n)s) AS n, (VALUES ('cpu 3-4 cores'), ('gpu nvidia 8.9')) AS k (c)",
        n=KEPT,
    )
    run(world, control, agent, "pruned", loading=999)
    mine = [row["loading_s"] for row in kept(world, "pruned") if row["node_class"] == "cpu 3-4 cores"]
    assert len(mine) == KEPT and mine[0] == 2 and mine[-1] == pytest.approx(999, abs=1.9)
    assert len(kept(world, "pruned")) == 2 * KEPT


def test_the_next_load_on_a_node_of_the_class_says_when_it_ends_and_on_another_class_it_does_not(
    world: World, control: Control, agent: Agent
) -> None:
    loads = LoadService(
        world.load_rows,
        world.load_rows,
        world.announcer,
        history=DurationBook(PgDurations(world.unit_of_work)),
    )
    for _ in range(3):
        run(world, control, agent, "foreseen", loading=100)
    job = placed_load(world, control, "foreseen")
    agent.claim(job)
    agent.change(job, phase=Phase.LOADING, progress=1)
    world.sql("UPDATE jobs SET phase_started_at = phase_started_at - interval '30 s' WHERE id = %(id)s", id=job.id)
    status = loads.status("foreseen")
    assert status is not None and status.eta_low and status.eta_high and status.eta_seconds
    assert status.eta_low < 70 <= status.eta_seconds + 2 and status.eta_seconds < 75 < status.eta_high
    assert loads.read(job.id).eta_high == pytest.approx(status.eta_high, abs=2)
    world.sql("UPDATE nodes SET cpu_logical_cores = 64 WHERE id = %(id)s", id=agent.id)
    other = LoadService(
        world.load_rows,
        world.load_rows,
        world.announcer,
        history=DurationBook(PgDurations(world.unit_of_work)),
    )
    elsewhere = other.status("foreseen")
    assert elsewhere is not None and elsewhere.eta_seconds is None


@pytest.mark.parametrize(
    ("figures", "node_class"),
    [
        ({}, "cpu unknown"),
        ({"cpu_logical_cores": 1}, "cpu 1-2 cores"),
        ({"cpu_logical_cores": 8, "gpu_vendor": "nvidia"}, "cpu 5-8 cores"),
        ({"cpu_logical_cores": 128, "total_vram": 0}, "cpu 65 and more cores"),
        ({"cpu_logical_cores": 8, "total_vram": 24, "gpu_vendor": "nvidia"}, "gpu nvidia"),
        (
            {"cpu_logical_cores": 8, "total_vram": 24, "gpu_vendor": "nvidia", "gpu_compute_capability": "8.9"},
            "gpu nvidia 8.9",
        ),
        ({"total_vram": 24}, "gpu unknown"),
    ],
)
def test_the_class_of_a_node_is_its_processor_and_not_the_node(
    world: World, figures: dict[str, Any], node_class: str
) -> None:
    node = world.nodes.register(
        Registration(name=f"class-{node_class.replace(' ', '-')}-{len(figures)}", figures=Figures(**figures))
    )
    (row,) = world.sql("SELECT node_class FROM nodes WHERE id = %(id)s", id=node.id)
    world.nodes.deregister(node.id)
    assert row["node_class"] == node_class


def test_a_book_reads_each_model_and_node_once_in_a_while(world: World, control: Control, agent: Agent) -> None:
    now, asked = [0.0], []

    class Counted(PgDurations):
        def known(self, model: str, node_id: Any) -> Any:
            asked.append((model, node_id))
            return super().known(model, node_id)

    book = DurationBook(Counted(world.unit_of_work), clock=lambda: now[0])
    job = placed_load(world, control, "asked-often")
    for _ in range(5):
        assert book.of(job) == []
    assert asked == [("asked-often", agent.id)]
    now[0] = MAX_AGE_S
    book.of(job)
    assert len(asked) == 2
    ended = control.owner.fail(job, "load_refused", "over", ended=True)
    book.of(ended)
    assert len(asked) == 2, "an attempt that has ended needs no ETA"
