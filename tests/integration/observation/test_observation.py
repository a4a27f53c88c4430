"""Gaps and steps of the database's clock, as rows that a test moves in place of the clock."""

from __future__ import annotations

import pytest

from localai.errors import RowsHeld
from localai.ids import new_id
from localai.jobs.operation_rules import Phase
from localai.nodes.rules import Figures
from localai.observation.store import SQL, Limits, PgObservation
from tests.integration.world import Agent, Control, World, placed_load

pytestmark = pytest.mark.integration

GAP_S, LEASE_S, RETRY_S, FRONTEND_S = 15.0, 30.0, 300.0, 90.0
HOUR = "interval '1 hour'"


@pytest.fixture
def observation(world: World) -> PgObservation:
    world.sql("UPDATE observation SET noted_at = clock_timestamp(), resumed_at = clock_timestamp() - interval '10 min'")
    world.sql("DELETE FROM frontends")
    world.frontends.register("host", 1, None)
    limits = Limits(gap_s=GAP_S, lease_s=LEASE_S, retry_late_s=RETRY_S, frontend_lease_s=FRONTEND_S)
    return PgObservation(world.unit_of_work, limits)


def test_the_observation_goes_on_while_any_sweep_notes_the_time(world: World, observation: PgObservation) -> None:
    assert observation.observe().watched_s > 590
    world.sql("UPDATE observation SET noted_at = noted_at - interval '6 s'")
    assert observation.observe().watched_s > 590, "a note is due, and there is no gap"
    assert noted_ago_s(world) < 5
    world.sql("UPDATE observation SET noted_at = noted_at - interval '16 s'")
    assert observation.observe().watched_s == 0
    assert 0 <= observation.observe().watched_s < 60, "counted from the end of the gap"


def test_time_in_which_no_web_process_lived_counts_for_no_silence(world: World, observation: PgObservation) -> None:
    world.sql("DELETE FROM frontends")
    world.sql("UPDATE observation SET noted_at = noted_at - interval '6 s'")
    assert observation.observe().watched_s == 0
    world.frontends.register("host", 2, None)
    assert 0 <= observation.observe().watched_s < 60


def test_seconds_that_nothing_observed_age_no_load_and_no_report(world: World, observation: PgObservation) -> None:
    agent, control = only_agent(world), Control(world)
    job = placed_load(world, control, f"gap-{new_id()}")
    agent.claim(job)
    agent.change(job, phase=Phase.STAGING)
    for column in ("started_at", "placed_at", "phase_started_at", "progress_at", "op_seen_at"):
        world.sql(f"UPDATE jobs SET {column} = {column} - {HOUR} WHERE id = %(id)s", id=job.id)
    world.sql(f"UPDATE observation SET noted_at = noted_at - {HOUR}")
    observation.observe()
    row = world.job(job.id)
    assert row.started_at and row.placed_at and row.phase_started_at and row.progress_at and row.op_seen_at
    for moment in (row.started_at, row.placed_at, row.phase_started_at, row.progress_at, row.op_seen_at):
        assert 0 <= (row.read_at - moment).total_seconds() < 60


def test_no_stored_time_stays_further_ahead_than_its_own_setting(world: World, observation: PgObservation) -> None:
    """Rows as they are after the clock was an hour ahead for a moment and went back."""
    agent, control = only_agent(world), Control(world)
    live = placed_load(world, control, f"ahead-{new_id()}")
    agent.claim(live)
    failed = placed_load(world, control, f"ahead-{new_id()}")
    agent.claim(failed)
    world.cancels.cancel(failed.id)
    world.sql(
        f"UPDATE jobs SET created_at = created_at + {HOUR}, started_at = started_at + {HOUR}, op_seen_at = op_seen_at + {HOUR}, "
        f"lease_expires_at = lease_expires_at + {HOUR}, finished_at = finished_at + {HOUR}, "
        f"hold_until = hold_until + {HOUR}, stop_deadline = stop_deadline + {HOUR}, stop_next_at = stop_next_at + {HOUR} "
        "WHERE id IN (%(live)s, %(failed)s)",
        live=live.id,
        failed=failed.id,
    )
    world.sql(f"UPDATE nodes SET last_heartbeat = last_heartbeat + {HOUR}, status_at = status_at + {HOUR}")
    world.sql(f"UPDATE frontends SET lease_expires_at = lease_expires_at + {HOUR}")
    world.sql(f"UPDATE subjects SET revision_at = clock_timestamp() + {HOUR}")
    world.sql(f"UPDATE replicas SET updated_at = updated_at + {HOUR}")
    world.sql("INSERT INTO periodic VALUES ('ahead', 30, clock_timestamp() + interval '1 hour')")
    world.sql(
        "INSERT INTO failure_streaks VALUES ('m', 'r', %(node)s, 'start_failed', 1, "
        f"clock_timestamp() + {HOUR}, clock_timestamp() + {HOUR}, 'no', %(job)s)",
        node=agent.id,
        job=failed.id,
    )
    world.sql(f"UPDATE observation SET noted_at = noted_at + {HOUR}, resumed_at = resumed_at + {HOUR}")
    held = world.job(failed.id)
    assert held.hold_left_s is not None
    assert held.hold_left_s <= 150, "also before the next pass"

    assert observation.observe().watched_s == 0
    row, over = world.job(live.id), world.job(failed.id)
    assert row.started_at and row.op_seen_at and row.lease_expires_at
    assert row.started_at <= row.read_at >= row.op_seen_at
    assert 0 < (row.lease_expires_at - row.read_at).total_seconds() <= LEASE_S
    assert over.hold_until and over.stop_deadline and over.stop_next_at and over.finished_at
    assert over.finished_at <= over.read_at
    assert max(row.created_at, over.created_at) <= row.read_at, "lists show the newest first"
    assert 100 < (over.hold_until - over.read_at).total_seconds() <= 150
    assert 100 < (over.stop_deadline - over.read_at).total_seconds() <= 150
    assert (over.stop_next_at - over.read_at).total_seconds() <= RETRY_S
    assert world.sql("SELECT 1 FROM frontends WHERE lease_expires_at > clock_timestamp() + interval '90 s'") == []
    assert world.sql("SELECT 1 FROM subjects WHERE revision_at > clock_timestamp()") == []
    assert world.sql("SELECT 1 FROM replicas WHERE updated_at > clock_timestamp()") == []
    assert world.sql("SELECT 1 FROM periodic WHERE next_run > clock_timestamp() + interval '30 s'") == []
    assert world.sql("SELECT 1 FROM failure_streaks WHERE greatest(since, last_at) > clock_timestamp()") == []
    assert world.sql("SELECT 1 FROM nodes WHERE greatest(status_at, last_heartbeat) > clock_timestamp()") == []


def test_a_node_whose_times_lay_ahead_is_back_with_its_next_heartbeat(world: World, observation: PgObservation) -> None:
    agent = Agent(world)
    world.sql(
        f"UPDATE nodes SET status = 'offline', status_at = clock_timestamp() + {HOUR}, "
        f"last_heartbeat = clock_timestamp() + {HOUR} WHERE id = %(id)s",
        id=agent.id,
    )
    world.sql(f"UPDATE observation SET noted_at = noted_at + {HOUR}")
    observation.observe()
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    world.nodes.take_back()
    assert world.nodes.require(agent.id).status == "healthy"


def test_a_heartbeat_is_written_again_if_the_last_one_lies_ahead_of_the_clock(world: World) -> None:
    agent = Agent(world)
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    world.sql(f"UPDATE nodes SET last_heartbeat = last_heartbeat + {HOUR} WHERE id = %(id)s", id=agent.id)
    world.nodes.heartbeat(agent.id, agent.incarnation, Figures())
    assert world.sql("SELECT 1 FROM nodes WHERE id = %(id)s AND last_heartbeat > clock_timestamp()", id=agent.id) == []


def only_agent(world: World) -> Agent:
    world.sql("UPDATE nodes SET status = 'offline'")
    return Agent(world)


def noted_ago_s(world: World) -> float:
    (row,) = world.sql("SELECT extract(epoch FROM clock_timestamp() - noted_at)::float8 AS ago FROM observation")
    return float(row["ago"])


def test_ended_jobs_ahead_of_the_clock_are_found_by_their_index(world: World) -> None:
    with world.unit_of_work() as uow:
        uow.execute("SET LOCAL enable_seqscan = off")
        plan = "\n".join(row[0] for row in uow.execute(f"EXPLAIN {SQL['mend_ended_jobs']}"))
    assert "jobs_ended" in plan and "Index Cond: (finished_at > " in plan, plan


def test_seconds_of_a_gap_are_added_to_a_load_whose_row_is_held_meanwhile(
    world: World, observation: PgObservation
) -> None:
    agent, control = only_agent(world), Control(world)
    job = placed_load(world, control, f"held-{new_id()}")
    agent.claim(job)
    world.sql(f"UPDATE jobs SET op_seen_at = op_seen_at - {HOUR} WHERE id = %(id)s", id=job.id)
    world.sql(f"UPDATE observation SET noted_at = noted_at - {HOUR}")
    with world.engine.begin() as connection:
        connection.exec_driver_sql("SELECT 1 FROM jobs WHERE id = %(id)s FOR UPDATE", {"id": job.id})
        with pytest.raises(RowsHeld):
            observation.observe()
    assert observation.observe().watched_s == 0, "the gap is judged again"
    row = world.job(job.id)
    assert row.op_seen_at and 0 <= (row.read_at - row.op_seen_at).total_seconds() < 60
