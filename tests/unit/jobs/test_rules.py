"""Each row of the state machine: what it changes, what refuses it, and what has to be told."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from localai.ids import NodeId, OwnerId
from localai.jobs import rules
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Claim,
    ConfirmStop,
    Event,
    Fail,
    Finish,
    FinishWork,
    GiveUpStop,
    Lapse,
    Missing,
    NewIncarnation,
    Place,
    Progress,
    Release,
    Renew,
    Reported,
    Requeue,
    Resend,
    RetryStop,
    SendOrder,
    SendStop,
    Take,
    TellResult,
    TellRouting,
    WakeControl,
    WorkGone,
)
from localai.jobs.job import DOOMED, LIVE, TERMINAL, Job, State, StopState
from localai.jobs.operation_rules import OpState, Phase
from localai.jobs.stops import exact_stop
from tests.unit.jobs.builders import NODE, NOW, OWNER, WINDOWS, at, claimed, queued, ready, running, sent, stopping

pytestmark = pytest.mark.unit

MINE = {"generation": 7, "owner": OWNER}
OPERATION = {"op_generation": 7, "node_id": NODE, "incarnation": 3}
FINISH = Finish(**MINE, revision="r1", incarnation=3)
ADOPT = Adopt(generation=7, new_generation=8, owner=OwnerId("other"), fresh_s=15.0)
LOST = {"lease_expires_at": at(-1)}
REPORTED = Reported(**OPERATION, op_state=OpState.CLAIMED, phase=Phase.STAGING, progress=4, bytes_done=5)


def accepted(job: Job, event: Event) -> rules.Accepted:
    outcome = rules.decide(job, event, NOW, WINDOWS)
    assert isinstance(outcome, rules.Accepted), outcome
    return outcome


def moved(job: Job, event: Event) -> Job:
    return accepted(job, event).job


@pytest.mark.parametrize(
    ("job", "event", "reason"),
    [
        (queued(), Take(generation=6, owner=OWNER), "generation_matches"),
        (running(), Take(**MINE), "state"),
        (running(generation=8), Renew(**MINE), "owned"),
        (running(owner=OwnerId("other")), Renew(**MINE), "owned"),
        (running(lease_expires_at=at(0)), Renew(**MINE), "lease_valid"),
        (running(lease_expires_at=at(-1)), Place(**MINE, node_id=NODE, order={}), "lease_valid"),
        (sent(), Place(**MINE, node_id=NODE, order={}), "not_placed"),
        (claimed(), Resend(**MINE), "unclaimed"),
        (sent(dispatch_expires_at=at(1)), Resend(**MINE), "dispatch_window_over"),
        (sent(), Claim(op_generation=6, node_id=NODE, incarnation=3, seq=1), "names_operation"),
        (sent(), Claim(op_generation=7, node_id=NodeId("other"), incarnation=3, seq=1), "names_operation"),
        (claimed(), Claim(op_generation=7, node_id=NODE, incarnation=4, seq=1), "unclaimed_or_same_incarnation"),
        (stopping(), Claim(op_generation=7, node_id=NODE, incarnation=3, seq=1), "state"),
        (sent(), REPORTED, "claimed_by_it"),
        (claimed(), replace(REPORTED, incarnation=2), "claimed_by_it"),
        (stopping(), REPORTED, "state"),
        (claimed(), Missing(**OPERATION, seq=10), "younger_than_claim"),
        (claimed(), FINISH, "operation_ready"),
        (running(), FINISH, "operation_ready"),
        (claimed(), FinishWork(**MINE), "not_placed"),
        (ready(lease_expires_at=at(-1)), FINISH, "lease_valid"),
        (ready(), replace(FINISH, revision="r2"), "revision_unchanged"),
        (ready(), replace(FINISH, incarnation=4), "same_incarnation"),
        (ready(generation=8), FINISH, "owned"),
        (running(), Lapse(generation=7), "lease_lapsed"),
        (running(generation=8, lease_expires_at=at(-1)), Lapse(generation=7), "generation_matches"),
        (claimed(), ADOPT, "lease_lapsed"),
        (claimed(generation=8, **LOST), ADOPT, "generation_matches"),
        (claimed(adoptions=3, **LOST), ADOPT, "adoptions_left"),
        (claimed(op_seen_at=at(-15), **LOST), ADOPT, "heard_of"),
        (sent(**LOST), ADOPT, "heard_of"),
        (stopping(), ADOPT, "state"),
        (claimed(generation=8), Release(**MINE, fresh_s=15.0), "owned"),
        (claimed(**LOST), Release(**MINE, fresh_s=15.0), "lease_valid"),
        (sent(), Release(**MINE, fresh_s=15.0), "heard_of"),
        (running(), Requeue(generation=7, new_generation=8), "lease_lapsed"),
        (sent(lease_expires_at=at(-1)), Requeue(generation=7, new_generation=8), "not_placed"),
        (claimed(), NewIncarnation(node_id=NODE, incarnation=3), "older_incarnation"),
        (sent(), NewIncarnation(node_id=NODE, incarnation=9), "older_incarnation"),
        (claimed(), NewIncarnation(node_id=NodeId("other"), incarnation=9), "older_incarnation"),
        (stopping(), Cancel(), "state"),
        (stopping(stop_state=StopState.CONFIRMED), ConfirmStop(op_generation=7, incarnation=3), "stop_pending"),
        (stopping(), ConfirmStop(op_generation=7, incarnation=2), "proves_end"),
        (stopping(), ConfirmStop(op_generation=6, incarnation=3), "proves_end"),
        (stopping(stop_next_at=at(1)), RetryStop(), "stop_due"),
        (stopping(stop_deadline=at(-1)), GiveUpStop(), "sent_to_legacy_node"),
        (stopping(legacy=True), GiveUpStop(), "stop_window_over"),
        (stopping(legacy=True, stop_deadline=at(-1), stop_state=StopState.CONFIRMED), GiveUpStop(), "stop_pending"),
        (queued(node_id=NODE), WorkGone(node_id=NodeId("other")), "about_process_there"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Event) else None,
)
def test_a_move_whose_guard_does_not_hold_touches_nothing(job: Job, event: Event, reason: str) -> None:
    assert rules.decide(job, event, NOW, WINDOWS) == rules.Refused(reason)


def test_take_begins_a_lease_and_counts_the_attempt_before_the_work() -> None:
    job = moved(queued(), Take(**MINE))
    assert (job.state, job.owner, job.attempts) == (State.RUNNING, OWNER, 1)
    assert job.lease_expires_at == at(WINDOWS.lease_s)
    assert job.dispatch_expires_at is None


def test_place_names_the_operation_by_the_generation_and_sends_the_order() -> None:
    outcome = accepted(running(), Place(**MINE, node_id=NODE, order={"model": "m"}))
    assert (outcome.job.op_generation, outcome.job.op_state, outcome.job.node_id) == (7, OpState.SENT, NODE)
    assert outcome.commands == (SendOrder(NODE, outcome.job.id, 7),)


@pytest.mark.parametrize(("window_s", "next_s"), [(10, 20), (80, 160), (160, 160)])
def test_an_unclaimed_order_is_sent_again_with_a_doubled_window(window_s: float, next_s: float) -> None:
    job = moved(sent(dispatch_window_s=window_s), Resend(**MINE))
    assert (job.dispatch_window_s, job.dispatch_expires_at) == (next_s, at(next_s))


@pytest.mark.parametrize("adoptions", [0, 3])
def test_what_was_given_back_is_adopted_without_counting_also_where_as_many_owners_were_lost_as_may_be(
    adoptions: int,
) -> None:
    given_back = moved(claimed(adoptions=adoptions), Release(**MINE, fresh_s=15.0))
    adopted = moved(given_back, ADOPT)
    assert (given_back.given_back, adopted.given_back, adopted.adoptions) == (True, False, adoptions)


def test_work_that_was_given_back_is_queued_without_counting() -> None:
    given_back = moved(running(attempts=3), Release(**MINE, fresh_s=15.0))
    queued = moved(given_back, Requeue(generation=7, new_generation=9))
    assert (queued.attempts, queued.given_back) == (2, False)
    assert moved(running(attempts=3, **LOST), Requeue(generation=7, new_generation=9)).attempts == 3


@pytest.mark.parametrize("job", [claimed(**LOST), ready(**LOST), running(adoptions=2, **LOST)])
def test_an_adopted_load_changes_its_owner_and_its_generation_and_nothing_of_its_operation(job: Job) -> None:
    outcome = accepted(job, ADOPT)
    owned = {"generation": 8, "owner": OwnerId("other"), "lease_expires_at": at(WINDOWS.lease_s)}
    assert outcome.job == replace(job, adoptions=job.adoptions + 1, **owned)
    assert not any(isinstance(command, SendOrder | SendStop) for command in outcome.commands)


@pytest.mark.parametrize("event", [Renew(**MINE), FINISH, Fail(**MINE, cause="x", error="x", ended=False)])
def test_c13_whoever_lost_a_load_can_write_nothing_of_it_once_it_is_adopted(event: Event) -> None:
    adopted = moved(ready(**LOST), ADOPT)
    assert rules.decide(adopted, event, NOW, WINDOWS) == rules.Refused("owned")
    again = moved(ready(**LOST), replace(ADOPT, owner=OWNER))
    assert rules.decide(again, event, NOW, WINDOWS) == rules.Refused("owned"), "also by the same process"


@pytest.mark.parametrize("address", [None, "10.0.0.5:50052"])
def test_what_was_sent_to_a_legacy_node_holds_long_and_is_stopped_by_exact_address_only(address: str | None) -> None:
    outcome = accepted(sent(legacy=True, address=address), Cancel())
    job = outcome.job
    assert (job.stop_state, job.hold_until) == (StopState.PENDING, at(WINDOWS.legacy_s))
    assert (job.stop_next_at is None) == (address is None)
    request = exact_stop(job)
    assert (request is None) == (address is None)
    if request is not None:
        body = request.to_json()
        assert (body["address"], body["process_key"], body["process_instance"]) == (address, None, None)
        assert job.subject not in str(list(body.values()))


def test_a_legacy_stop_ends_with_its_window_and_without_a_proof() -> None:
    job = moved(stopping(legacy=True, node_incarnation=None, stop_deadline=at(-1)), GiveUpStop())
    assert (job.stop_state, job.stop_next_at) == (StopState.NONE, None)


def test_a_claim_shows_that_its_agent_is_no_legacy_one() -> None:
    job = moved(sent(legacy=True), Claim(op_generation=7, node_id=NODE, incarnation=3, seq=1))
    assert not job.legacy
    assert moved(job, Cancel()).hold_until == at(WINDOWS.stop_s)


def test_a_lease_that_was_given_back_has_lapsed_for_everybody() -> None:
    job = moved(claimed(), Release(**MINE, fresh_s=15.0))
    assert rules.decide(job, Renew(**MINE), NOW, WINDOWS) == rules.Refused("lease_valid")
    assert moved(job, ADOPT).owner == OwnerId("other")


def test_a_second_claim_of_one_incarnation_changes_neither_state_nor_claim() -> None:
    again = Claim(op_generation=7, node_id=NODE, incarnation=3, seq=99)
    job = moved(ready(), again)
    assert (job.op_state, job.op_claim_seq) == (OpState.READY, 10)


def test_a_report_is_progress_only_where_something_moved() -> None:
    job = moved(claimed(progress=4, progress_at=at(-9), phase=Phase.STAGING), REPORTED)
    assert job.progress_at == at(-9)
    assert moved(claimed(progress=3, phase=Phase.STAGING), REPORTED).progress_at == NOW
    assert moved(claimed(progress=4, phase=Phase.INSTALLING), REPORTED).progress_at == NOW


def test_an_agent_that_has_not_seen_its_grant_does_not_take_the_claim_back() -> None:
    job = moved(claimed(), replace(REPORTED, op_state=OpState.SENT))
    assert (job.op_state, job.op_seen_at) == (OpState.CLAIMED, NOW)


@pytest.mark.parametrize("op_state", [OpState.READY, OpState.ENDED])
def test_a_report_that_needs_a_step_wakes_a_control_worker(op_state: OpState) -> None:
    outcome = accepted(claimed(), replace(REPORTED, op_state=op_state))
    assert WakeControl(outcome.job.id, 7) in outcome.commands
    assert WakeControl(outcome.job.id, 7) not in accepted(claimed(), REPORTED).commands


def test_the_third_report_without_the_operation_ends_it() -> None:
    job = claimed()
    for count in (1, 2):
        job = moved(job, Missing(**OPERATION, seq=11))
        assert (job.op_missing, job.op_state) == (count, OpState.CLAIMED)
    job = moved(job, Missing(**OPERATION, seq=11))
    assert job.op_state == OpState.ENDED
    assert (job.op_error or {})["cause"] == "operation_lost"
    assert moved(claimed(op_missing=2), REPORTED).op_missing == 0


def test_finish_routes_and_tells() -> None:
    outcome = accepted(ready(), FINISH)
    assert (outcome.job.state, outcome.job.stop_state, outcome.job.hold_until) == (
        State.SUCCEEDED,
        StopState.NONE,
        None,
    )
    assert outcome.commands == (TellRouting(), TellResult(outcome.job.id, State.SUCCEEDED))
    alone = accepted(running(), FinishWork(**MINE))
    assert alone.commands == (TellResult(alone.job.id, State.SUCCEEDED),)


FAILED = {"cause": "load_timeout", "error": "too long"}


@pytest.mark.parametrize(
    ("job", "event", "stop", "hold_s"),
    [
        (running(), Fail(**MINE, **FAILED, ended=False), StopState.CONFIRMED, 15),
        (sent(), Fail(**MINE, **FAILED, ended=False), StopState.CONFIRMED, 15),
        (claimed(), Fail(**MINE, **FAILED, ended=False), StopState.PENDING, 150),
        (claimed(), Fail(**MINE, **FAILED, ended=True), StopState.CONFIRMED, 15),
        (claimed(op_state=OpState.ENDED), Fail(**MINE, **FAILED, ended=False), StopState.CONFIRMED, 15),
        (ready(), Fail(**MINE, **FAILED, ended=False), StopState.PENDING, 150),
        (claimed(lease_expires_at=at(-1)), Lapse(generation=7), StopState.PENDING, 150),
        (sent(lease_expires_at=at(-1)), Lapse(generation=7), StopState.CONFIRMED, 15),
        (claimed(), NewIncarnation(node_id=NODE, incarnation=4), StopState.CONFIRMED, 15),
        (queued(), Cancel(), StopState.CONFIRMED, 15),
        (running(), Cancel(), StopState.CONFIRMED, 15),
        (claimed(), Cancel(), StopState.PENDING, 150),
    ],
)
def test_the_short_hold_needs_a_fact(job: Job, event: Event, stop: StopState, hold_s: float) -> None:
    outcome = accepted(job, event)
    assert (outcome.job.stop_state, outcome.job.hold_until) == (stop, at(hold_s))
    assert outcome.job.state in DOOMED
    assert (SendStop(job.id, 7) in outcome.commands) == (stop == StopState.PENDING)
    assert TellResult(job.id, outcome.job.state) in outcome.commands


def test_a_lapse_keeps_what_the_agent_said_last() -> None:
    said = {"cause": "disk_full", "message": "no space"}
    job = moved(claimed(op_state=OpState.ENDED, op_error=said, lease_expires_at=at(-1)), Lapse(generation=7))
    assert (job.error_cause, job.error) == ("disk_full", "no space")
    assert moved(claimed(lease_expires_at=at(-1)), Lapse(generation=7)).error_cause == "owner_lost"


def test_a_load_that_lost_one_owner_too_many_says_so() -> None:
    lost = moved(claimed(adoptions=3, **LOST), Lapse(generation=7))
    assert "3 owners before it were lost too" in (lost.error or "")
    assert "before it" not in (moved(claimed(adoptions=2, **LOST), Lapse(generation=7)).error or "")


def test_requeued_work_has_a_new_generation_and_no_owner() -> None:
    job = moved(running(lease_expires_at=at(-1)), Requeue(generation=7, new_generation=9))
    assert (job.state, job.generation, job.owner, job.lease_expires_at) == (State.QUEUED, 9, None, None)


def test_a_confirmation_never_prolongs_a_hold() -> None:
    confirm = ConfirmStop(op_generation=7, incarnation=3)
    assert moved(stopping(), confirm).hold_until == at(15)
    assert moved(stopping(hold_until=at(-50)), confirm).hold_until == at(-50)
    assert moved(stopping(), replace(confirm, incarnation=4)).stop_state == StopState.CONFIRMED


@pytest.mark.parametrize(
    ("attempts", "hold", "pause_s"), [(0, 140, 1), (1, 140, 2), (3, 140, 8), (9, 140, 15), (9, -1, 300)]
)
def test_stops_are_sent_again_with_back_off_also_after_the_hold(attempts: int, hold: float, pause_s: float) -> None:
    job = moved(stopping(stop_attempts=attempts, hold_until=at(hold)), RetryStop())
    assert (job.stop_attempts, job.stop_next_at) == (attempts + 1, at(pause_s))


def test_every_event_has_one_move_and_every_guard_says_what_must_hold() -> None:
    events = {move.event for move in rules.MOVES}
    assert len(events) == len(rules.MOVES)
    assert events == set(Event.__args__)  # type: ignore[attr-defined]
    assert all(guard.__doc__ for move in rules.MOVES for guard in move.guards)


def _random_event(draw: random.Random, job: Job) -> Event:
    generation = draw.choice([job.generation, job.generation - 1])
    owner = draw.choice([OWNER, OwnerId("other")])
    incarnation = draw.choice([2, 3, 4])
    operation = {"op_generation": draw.choice([job.op_generation or 7, 6]), "node_id": NODE, "incarnation": incarnation}
    mine: dict[str, Any] = {"generation": generation, "owner": owner}
    return draw.choice(
        [
            Take(**mine),
            Place(**mine, node_id=NODE, order={}),
            Resend(**mine),
            Claim(**operation, seq=draw.randrange(20)),
            Reported(**operation, op_state=draw.choice(list(OpState)[1:]), phase=draw.choice(list(Phase))),
            Missing(**operation, seq=draw.randrange(20)),
            Renew(**mine),
            Progress(**mine),
            Finish(**mine, revision=draw.choice(["r1", "r2"]), incarnation=incarnation),
            FinishWork(**mine),
            Fail(**mine, **FAILED, ended=draw.random() < 0.5),
            Lapse(generation=generation),
            Requeue(generation=generation, new_generation=job.generation + 1),
            Cancel(),
            NewIncarnation(node_id=NODE, incarnation=incarnation),
            ConfirmStop(op_generation=operation["op_generation"], incarnation=incarnation),  # type: ignore[arg-type]
            RetryStop(),
            WorkGone(node_id=NODE),
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_in_whatever_order_the_row_stays_one_that_may_exist(seed: int) -> None:
    draw = random.Random(seed)
    job, now, ends = queued(revision="r1"), NOW, 0
    for _ in range(120):
        now = now + (at(draw.choice([0, 1, 5, 40])) - NOW)
        before = job
        outcome = rules.decide(job, _random_event(draw, job), now, WINDOWS)
        if isinstance(outcome, rules.Refused):
            continue
        job = outcome.job
        ends += before.state in LIVE and job.state in TERMINAL
        assert (job.state == State.RUNNING) == (job.owner is not None and job.lease_expires_at is not None)
        assert (job.state in TERMINAL) == (job.finished_at is not None)
        assert job.stop_state != StopState.PENDING or (job.op_generation is not None and job.state in DOOMED)
        assert job.stop_state != StopState.NONE or job.state not in DOOMED
        assert before.state not in TERMINAL or job.state == before.state, "terminal is for ever"
        assert not (before.stop_state == StopState.CONFIRMED and job.stop_state != StopState.CONFIRMED)
        assert before.op_generation is None or job.op_generation == before.op_generation
        if before.hold_until is not None:
            assert job.hold_until is not None and job.hold_until <= before.hold_until, "a hold never grows"
        if job.hold_until is not None and job.finished_at is not None:
            assert job.hold_until <= job.finished_at + (at(WINDOWS.stop_s) - NOW), "every hold has its bound"
    assert ends <= 1
