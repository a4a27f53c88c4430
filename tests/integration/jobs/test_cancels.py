"""Cancels by HTTP over real rows: every row of the status table, and what two hands at once leave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import CursorResult

from localai.db.unit_of_work import UnitOfWork
from localai.errors import StorageUnavailable
from localai.ids import JobId, new_id
from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import MODEL_INSTALL, REPLICA_CLEANUP
from localai.jobs.operation_rules import StopAnswer, StopOutcome
from localai.jobs.ports import Intake, JobFilter, NewJob
from localai.jobs.rows import SQL
from localai.jobs.store import PgJobStore
from tests.fakes.web import WebBench
from tests.integration.world import Agent, Control, World, in_thread, placed_load, plain_plan, serving_load
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration


@pytest.fixture
def web(world: World, tmp_path: Path) -> WebBench:
    """The routes over the world's rows; wake-ups are delivered by the test or never."""
    return WebBench(
        tmp_path, loads=world.loads, jobs=world.job_service, cancels=world.cancels, load_cancels=world.load_cancels
    )


def cancel(web: WebBench, model: str, job_id: str) -> Any:
    return web.post(f"/api/models/{quote(model, safe='')}/load-cancel", {"job_id": job_id})


def claimed_load(world: World, control: Control, agent: Agent, model: str) -> Job:
    """A load whose agent works on it."""
    load = placed_load(world, control, model)
    agent.claim(load)
    return load


@pytest.fixture
def claimed(world: World, control: Control, agent: Agent) -> Callable[[str], Job]:
    """A load whose agent works on it, by the name of its model."""
    return lambda model: claimed_load(world, control, agent, model)


@pytest.fixture
def answering(world: World, agent: Agent, control: Control, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The worker ends what it is asked to stop, and control carries each wake-up on; the jobs that were stopped."""
    stopped: list[str] = []

    def stop(payload: Any) -> dict[str, object]:
        stopped.append(payload["job_id"])
        return agent.obey(payload)

    world.bus.serve(agent.id, "model.stop", stop)
    monkeypatch.setattr(world.wakeups, "wake_control", control.stepper.step)
    return stopped


# The status table


@pytest.mark.parametrize("model", ["sc08", "org/sc08:v1", "modèle-ü 模型", "a//b", "per%2Fcent"])
def test_sc_08_a_live_worker_confirms_and_the_answer_is_200_stopped(
    world: World, web: WebBench, claimed: Callable[[str], Job], answering: list[str], model: str
) -> None:
    load = claimed(model)
    answer = cancel(web, model, load.id)
    assert (answer.status_code, answer.get_json()) == (200, {"model": model, "job_id": load.id, "state": "stopped"})
    assert answering == [load.id]
    assert world.replica(model) is None, "its row goes with the confirmation"
    assert cancel(web, model, load.id).get_json()["state"] == "stopped", "a repeat is answered the same"
    assert answering == [load.id], "and asks nobody again"


@pytest.mark.parametrize("outcome", list(StopOutcome))
def test_a_forged_stop_answer_of_the_bus_frees_nothing(
    world: World, agent: Agent, web: WebBench, outcome: StopOutcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with access to the bus answers in place of the node, whose process goes on."""
    model, control = f"forged-{outcome.value}", Control(world)
    load = claimed_load(world, control, agent, model)
    agent.become_ready(load)
    asked: list[Any] = []

    def forge(payload: Any) -> dict[str, object]:
        asked.append(payload)
        return StopAnswer(outcome=outcome, incarnation=agent.incarnation + 1).to_json()

    world.bus.serve(agent.id, "model.stop", forge)
    monkeypatch.setattr(world.wakeups, "wake_control", control.stepper.step)
    answer = cancel(web, model, load.id)
    assert (answer.status_code, answer.get_json()["state"], len(asked)) == (202, "stopping", 1)
    assert world.job(load.id).stop_state == StopState.PENDING
    assert world.replica(model) is not None, "its memory and its slot stay taken"
    agent.end(load)
    assert world.job(load.id).stop_state == StopState.CONFIRMED
    assert world.replica(model) is None, "the report of the agent is the proof"


def test_sc_08_a_silent_worker_is_202_and_a_repeat_sends_the_stop_again_and_extends_nothing(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    load = claimed_load(world, control, agent, "sc08-silent")
    first = cancel(web, "sc08-silent", load.id)
    body = first.get_json()
    assert (first.status_code, body["state"]) == (202, "stopping")
    assert 145 <= body["retry_after"] <= 150 and first.headers["Retry-After"] == str(body["retry_after"])
    hold = world.job(load.id).hold_until
    world.wakeups.control.clear()
    assert cancel(web, "sc08-silent", load.id).status_code == 202
    assert world.job(load.id).hold_until == hold
    assert world.wakeups.control == [(load.id, load.generation)], "somebody is to send the stop again"
    status = web.get("/api/models/sc08-silent/load-status").get_json()
    assert (status["job_id"], status["state"], status["stopping"], status["cancel_requested"]) == (
        load.id,
        "failed",
        True,
        True,
    )
    assert status["stop_deadline"] and status["retry_after"] and status["last_error"] and status["attempts"] == 1


@pytest.mark.parametrize("step", [False, True])
def test_sc_08_a_load_that_is_not_placed_is_stopped_at_once(world: World, web: WebBench, step: bool) -> None:
    for node in world.nodes.list():
        world.nodes.deregister(node.id)
    model = f"sc08-unplaced-{step}"
    world.plans.plans[model] = plain_plan(model, files=None)
    ticket = world.loads.request(model, "r1")
    if step:
        Control(world).step(ticket.job_id)
    answer = cancel(web, model, ticket.job_id)
    assert (answer.status_code, answer.get_json()["state"]) == (200, "stopped")
    assert world.job(ticket.job_id).state == State.CANCELLED


def test_sc_08_another_attempt_is_409_with_its_id_and_goes_on(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    old = placed_load(world, control, "sc08-other")
    cancel(web, "sc08-other", old.id)
    world.end_hold(old.id)
    current = placed_load(world, control, "sc08-other")
    for named in (old.id, new_id()):
        answer = cancel(web, "sc08-other", named)
        assert answer.status_code == 409
        assert answer.get_json() == {
            "model": "sc08-other",
            "job_id": named,
            "state": "conflict",
            "current_job_id": current.id,
        }
    assert world.job(current.id).state == State.RUNNING


def test_sc_08_what_is_no_attempt_of_the_model_is_gone_and_an_unknown_model_is_404(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    mine = placed_load(world, control, "sc08-mine")
    web.model("sc08-idle")
    assert cancel(web, "sc08-idle", new_id()).get_json()["state"] == "gone"
    assert cancel(web, "sc08-idle", mine.id).get_json()["state"] == "gone", "an attempt of another model"
    assert world.job(mine.id).state == State.RUNNING
    unknown = cancel(web, "sc08-nobody", new_id())
    assert (unknown.status_code, unknown.get_json()["error"]["code"]) == (404, 404)
    assert unknown.get_json()["error"]["type"] == "node_error"
    deleted = placed_load(world, control, "sc08-deleted")
    assert cancel(web, "sc08-deleted", deleted.id).status_code == 200, "without a config its job is enough"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b"{",
        b'{"job_id": 7}',
        b'{"job_id": null}',
        b'{"job_id": ""}',
        b'{"job_id": "not-an-id"}',
        b'{"job_id": "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11", "force": true}',
        b'{"job_id": "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11"} {}',
        b'{"job_id": "5b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11"' + b" " * 5000 + b"}",
    ],
)
def test_sc_08_any_other_body_is_400_and_ends_nothing(world: World, web: WebBench, data: bytes) -> None:
    answer = web.client.post("/api/models/m/load-cancel", data=data, headers=web.key())
    assert answer.status_code == 400
    assert answer.get_json()["error"]["type"] == "node_error" and answer.get_json()["error"]["param"]


def test_sc_08_no_name_is_400_no_key_is_401_and_a_database_that_is_away_is_503(
    world: World, web: WebBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert web.post("/api/models//load-cancel", {"job_id": new_id()}).status_code == 400
    assert web.client.post("/api/models/m/load-cancel", json={"job_id": new_id()}).status_code == 401

    def refuse(*_: object) -> None:
        raise StorageUnavailable

    monkeypatch.setattr(world.load_rows, "current", refuse)
    answer = cancel(web, "m", new_id())
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


# Races


@pytest.mark.parametrize("cancel_first", [True, False])
def test_sc_08_a_cancel_that_races_with_success_leaves_a_model_that_serves_or_nothing(
    world: World, control: Control, agent: Agent, web: WebBench, cancel_first: bool
) -> None:
    """Both wait for the subject or the row; whichever is first wins, and the other one sees it."""
    model = f"sc08-race-{cancel_first}"
    load = claimed_load(world, control, agent, model)
    agent.become_ready(load)
    finish, end = lambda: control.step(load.id), lambda: cancel(web, model, load.id).get_json()
    threads = []
    with world.holding("SELECT 1 FROM jobs WHERE id = %(id)s FOR UPDATE", id=load.id):
        for work in (end, finish) if cancel_first else (finish, end):
            waiting = len(threads)
            threads.append(in_thread(work))
            eventually(lambda waiting=waiting: world.waiting_for_a_lock() > waiting, "at the row")  # type: ignore[misc]
    for thread, _ in threads:
        thread.join(30)
    (answer,) = [found for _, (found,) in threads if isinstance(found, dict)]
    serves = [replica.model for replica in world.replicas.routing_snapshot().replicas if replica.model == model]
    assert (answer["state"], world.job(load.id).state, serves) in [
        ("gone", State.SUCCEEDED, [model]),
        ("stopping", State.CANCELLED, []),
    ]


def test_a_load_that_succeeded_is_gone_and_serves_on(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    load, _, _ = serving_load(world, control, [agent], "sc08-served")
    assert cancel(web, "sc08-served", load.id).get_json()["state"] == "gone"
    replica = world.replica("sc08-served")
    assert replica is not None and replica["state"] == "loaded"


def test_a_cancelled_load_ends_the_fetch_that_only_it_waits_for(world: World, agent: Agent, web: WebBench) -> None:
    world.plans.plans["sc08-fetched"] = plain_plan("sc08-fetched", files=None)
    ticket = world.loads.request("sc08-fetched", "r1")
    Control(world).step(ticket.job_id)
    (fetch,) = world.jobs.list(JobFilter(kind=MODEL_INSTALL, subject="sc08-fetched"))
    assert cancel(web, "sc08-fetched", ticket.job_id).status_code == 200
    assert world.job(fetch.id).state == State.CANCELLED
    load, fetch = world.job(ticket.job_id), world.job(fetch.id)
    assert load.hold_until and fetch.hold_until and fetch.hold_until <= load.hold_until


def test_a_fetch_that_begins_while_its_load_is_cancelled_ends_with_it(world: World) -> None:
    """The row of the fetch is written and not committed: the cancel waits for it, and then sees it."""
    ticket = world.loads.request("sc08-begins", "r1")
    written, commit = threading.Event(), threading.Event()

    class Slow(UnitOfWork):
        def execute(self, statement: str, parameters: Mapping[str, Any] | None = None) -> CursorResult[Any]:
            result = super().execute(statement, parameters)
            if statement == SQL["insert_job"]:
                written.set()
                assert commit.wait(LIMIT_S)
            return result

    slow = PgJobStore(lambda: Slow(world.engine), world.windows)
    new = NewJob(kind=MODEL_INSTALL, subject="sc08-begins", parent_id=JobId(ticket.job_id))
    begins, begun = in_thread(lambda: slow.request(new))
    try:
        assert written.wait(LIMIT_S)
        cancels, cancelled = in_thread(lambda: world.cancel_rows.cancel(JobId(ticket.job_id), "api"))
        eventually(world.waiting_for_a_lock, "the cancel at the load that gets a fetch")
    finally:
        commit.set()
    begins.join(LIMIT_S)
    cancels.join(LIMIT_S)
    ((outcome, fetch),) = begun  # type: ignore[misc]
    assert outcome is Intake.CREATED
    assert [[job.id for job in jobs] for jobs in cancelled] == [[fetch.id, ticket.job_id]]  # type: ignore[attr-defined]


def test_a_fetch_for_a_load_that_was_cancelled_meanwhile_does_not_begin(world: World) -> None:
    """The owner has read its load before the cancel, and asks for the bytes after it."""
    world.plans.plans["sc08-late"] = plain_plan("sc08-late", files=None)
    ticket = world.loads.request("sc08-late", "r1")
    control = Control(world)
    taken = world.jobs.take(JobId(ticket.job_id), ticket.generation, control.owner.id)
    assert taken is not None
    world.cancel_rows.cancel(taken.id, "api")
    control.stepper._steps[taken.kind].step(taken)
    assert not world.jobs.list(JobFilter(kind=MODEL_INSTALL, subject="sc08-late"))


# Jobs of any kind


def cancel_job(web: WebBench, job_id: str) -> Any:
    return web.post(f"/api/jobs/{job_id}/cancel", None)


def test_a_job_is_cancelled_by_its_id_alone(world: World, control: Control, agent: Agent, web: WebBench) -> None:
    load = claimed_load(world, control, agent, "by-id")
    assert web.get(f"/api/jobs/{load.id}").get_json()["cancellable"] is True
    silent = cancel_job(web, load.id)
    assert (silent.status_code, silent.get_json()["state"]) == (202, "stopping")
    assert silent.headers["Retry-After"] == str(silent.get_json()["retry_after"])
    agent.end(load)
    done = cancel_job(web, load.id)
    assert (done.status_code, done.get_json()) == (
        200,
        {"job_id": load.id, "kind": "model.load", "subject": "by-id", "state": "stopped"},
    )
    assert web.get(f"/api/jobs/{load.id}").get_json()["cancellable"] is False


def test_a_fetch_is_cancelled_and_the_load_that_waits_for_it_says_so(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    world.plans.plans["fetch-by-id"] = plain_plan("fetch-by-id", files=None)
    ticket = world.loads.request("fetch-by-id", "r1")
    control.step(ticket.job_id)
    (fetch,) = world.jobs.list(JobFilter(kind=MODEL_INSTALL, subject="fetch-by-id"))
    assert cancel_job(web, fetch.id).get_json()["state"] == "stopped"
    load = control.step(ticket.job_id)
    assert (load.state, load.error_cause) == (State.FAILED, "cancelled")


def test_what_ended_by_itself_and_what_must_go_on_are_409_and_what_is_not_there_404(
    world: World, control: Control, agent: Agent, web: WebBench
) -> None:
    served, _, instance = serving_load(world, control, [agent], "ended-by-itself")
    new = NewJob(kind=REPLICA_CLEANUP, subject=instance, node_id=agent.id, args={"model": "ended-by-itself", "slot": 0})
    _, cleanup = world.jobs.request(new)
    for job_id, code in ((served.id, "job_ended"), (cleanup.id, "not_cancellable")):
        answer = cancel_job(web, str(job_id))
        assert (answer.status_code, answer.get_json()["error"]["code"]) == (409, code)
        assert len(answer.get_json()["error"]["message"]) > 40
    assert world.job(cleanup.id).live
    assert web.get(f"/api/jobs/{cleanup.id}").get_json()["about"] == f"ended-by-itself#0 (process {instance[:8]})"
    for job_id in ("not-an-id", new_id()):
        assert cancel_job(web, job_id).status_code == 404


def test_a_doomed_load_whose_worker_is_silent_is_stopped_again_by_a_cancel(
    world: World, control: Control, agent: Agent, web: WebBench, answering: list[str]
) -> None:
    load = claimed_load(world, control, agent, "doomed-already")
    world.lapse(load.id)
    world.sql("UPDATE jobs SET op_seen_at = op_seen_at - interval '1 hour' WHERE id = %(id)s", id=load.id)
    world.sweeps.lapse(100)
    assert (world.job(load.id).state, world.job(load.id).stop_state) == (State.FAILED, StopState.PENDING)
    assert cancel(web, "doomed-already", load.id).get_json()["state"] == "stopped"
    assert answering == [load.id] and world.job(load.id).state == State.FAILED
