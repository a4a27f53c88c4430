"""The moves of an operation as tables of values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localai.jobs.operation_rules import Answer, Cause, OperationError, OpState, StopOutcome, StopRequest
from tests.unit.worker_agent.factories import JOB, operation, running
from worker_agent.processes import rules
from worker_agent.processes.rules import Stage, StartMove, StopMove

pytestmark = pytest.mark.unit

KILL_TTL_S = 90.0
WHY = OperationError(cause="start_failed", message="why")


@pytest.mark.parametrize(
    ("age_s", "stage"),
    [(0.0, Stage.WORKING), (KILL_TTL_S - 0.1, Stage.WORKING), (KILL_TTL_S, Stage.ENDED), (1000.0, Stage.ENDED)],
)
def test_c03_a_grant_ages_from_its_request_and_is_void_after_the_kill_ttl(age_s: float, stage: Stage) -> None:
    granted = rules.granted(
        operation(Stage.CLAIMING),
        process_key="m#0",
        sent_at=100.0,
        now=100.0 + age_s,
        deadline_s=60.0,
        kill_ttl_s=KILL_TTL_S,
    )
    assert granted.stage is stage
    if stage is Stage.WORKING:
        assert (granted.kept_at, granted.deadline_at) == (100.0, 160.0)


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.CLAIMING])
def test_c02_a_grant_changes_only_an_operation_that_still_claims(stage: Stage) -> None:
    before = operation(stage)
    after = rules.granted(before, process_key="m#0", sent_at=1.0, now=1.0, deadline_s=60.0, kill_ttl_s=KILL_TTL_S)
    assert after is before


def test_c04_a_renewal_counts_from_the_question_and_never_backwards() -> None:
    before = operation(kept_at=50.0)
    assert rules.answered(before, Answer.KEEP, sent_at=60.0).kept_at == 60.0
    assert rules.answered(before, Answer.KEEP, sent_at=40.0).kept_at == 50.0


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.WORKING])
def test_c04_a_renewal_gives_life_to_nothing_but_granted_work(stage: Stage) -> None:
    before = operation(stage)
    assert rules.answered(before, Answer.KEEP, sent_at=60.0) is before


@pytest.mark.parametrize("stage", list(Stage))
def test_an_answer_wait_changes_nothing_because_absence_is_no_proof(stage: Stage) -> None:
    before = operation(stage)
    assert rules.answered(before, Answer.WAIT, sent_at=60.0) is before


@pytest.mark.parametrize(
    ("stage", "after"),
    [
        (Stage.CLAIMING, Stage.GONE),
        (Stage.WORKING, Stage.ENDING),
        (Stage.READY, Stage.ENDING),
        (Stage.ENDING, Stage.ENDING),
        (Stage.ENDED, Stage.GONE),
        (Stage.COMPLETE, Stage.COMPLETE),
        (Stage.GONE, Stage.GONE),
    ],
)
def test_c07_an_answer_stop_ends_whatever_is_under_way_also_when_ready(stage: Stage, after: Stage) -> None:
    assert rules.answered(operation(stage, ended_at=50.0), Answer.STOP, sent_at=60.0).stage is after


@pytest.mark.parametrize("answer", [Answer.STOP, Answer.COMPLETE])
def test_c10_an_end_is_not_acknowledged_by_the_answer_to_an_older_report(answer: Answer) -> None:
    before = operation(Stage.ENDED, ended_at=50.0)
    assert rules.answered(before, answer, sent_at=49.0) is before


@pytest.mark.parametrize(
    ("stage", "after"),
    [(Stage.READY, Stage.COMPLETE), (Stage.WORKING, Stage.WORKING), (Stage.ENDING, Stage.ENDING)],
)
def test_an_answer_complete_takes_only_a_ready_operation(stage: Stage, after: Stage) -> None:
    assert rules.answered(operation(stage), Answer.COMPLETE, sent_at=60.0).stage is after


@pytest.mark.parametrize(
    ("now", "kept_at", "deadline_at", "stage"),
    [
        (189.9, 100.0, 1000.0, Stage.WORKING),
        (190.0, 100.0, 1000.0, Stage.ENDING),
        (150.0, 100.0, 150.0, Stage.ENDING),
        (149.9, 100.0, 150.0, Stage.WORKING),
    ],
)
def test_the_watchdog_ends_what_nobody_renews_or_what_is_past_its_deadline(
    now: float, kept_at: float, deadline_at: float, stage: Stage
) -> None:
    after = rules.watched(operation(kept_at=kept_at, deadline_at=deadline_at), now=now, kill_ttl_s=KILL_TTL_S)
    assert after.stage is stage
    if stage is Stage.ENDING:
        assert after.error is not None
        assert after.error.cause == Cause.OPERATION_KILLED


def test_an_operation_past_its_deadline_says_how_long_that_was_and_what_sets_it() -> None:
    granted = rules.granted(
        operation(Stage.CLAIMING),
        process_key="m#0",
        sent_at=100.0,
        now=101.0,
        deadline_s=80.0,
        kill_ttl_s=KILL_TTL_S,
    )
    error = rules.watched(granted, now=180.0, kill_ttl_s=KILL_TTL_S).error
    assert error is not None
    assert "80 s after it was claimed; LOCALAI_STAGING_MAX_DURATION" in error.message


def anonymous(deadline_s: float = 600.0) -> rules.Operation:
    return rules.anonymous("drawn", process_key="m#0", now=100.0, deadline_s=deadline_s)


@pytest.mark.parametrize(
    ("now", "stage"),
    [(100.0 + KILL_TTL_S, Stage.WORKING), (100.0 + 10 * KILL_TTL_S - 301, Stage.WORKING), (700.0, Stage.ENDING)],
)
def test_an_anonymous_operation_is_killed_at_its_deadline_only(now: float, stage: Stage) -> None:
    assert rules.watched(anonymous(), now=now, kill_ttl_s=KILL_TTL_S).stage is stage


def test_an_anonymous_operation_is_complete_when_it_is_ready_and_no_timer_ends_it_then() -> None:
    done = rules.ready(anonymous(), process_lives=True, identity="m")
    assert done.stage is Stage.COMPLETE
    assert rules.watched(done, now=1e9, kill_ttl_s=KILL_TTL_S) is done
    assert rules.ready(anonymous(), process_lives=False, identity="m").stage is Stage.WORKING


@pytest.mark.parametrize("stage", [Stage.WORKING, Stage.READY, Stage.ENDING, Stage.ENDED])
def test_the_secret_of_a_process_is_reported_once_it_serves(stage: Stage) -> None:
    report = rules.operation_report(operation(stage, process_secret="a-secret-of-a-process"))
    assert report is not None
    assert report.process_secret == ("a-secret-of-a-process" if stage is Stage.READY else None)


def test_nobody_is_told_of_an_anonymous_operation_and_its_end_needs_no_answer() -> None:
    assert rules.operation_report(anonymous()) is None
    doomed = rules.watched(anonymous(), now=700.0, kill_ttl_s=KILL_TTL_S)
    assert rules.operation_report(doomed) is None
    assert rules.settled(doomed, thread_works=False, process_lives=True, now=701.0).stage is Stage.ENDING
    assert rules.settled(doomed, thread_works=False, process_lives=False, now=701.0).stage is Stage.GONE


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.WORKING])
def test_i3_no_timer_ends_anything_but_work(stage: Stage) -> None:
    before = operation(stage, deadline_at=0.0)
    assert rules.watched(before, now=10_000.0, kill_ttl_s=KILL_TTL_S) is before


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.WORKING])
def test_c11_ready_is_reached_from_work_only(stage: Stage) -> None:
    before = operation(stage)
    assert rules.ready(before, process_lives=True, identity="m") is before


def test_ready_needs_a_process_that_lives() -> None:
    before = operation()
    assert rules.ready(before, process_lives=False, identity="m") is before
    assert rules.ready(before, process_lives=True, identity="m").stage is Stage.READY


def test_the_first_reason_of_an_end_stays() -> None:
    doomed = rules.doomed(operation(), WHY)
    assert rules.doomed(doomed, OperationError(cause="cancelled", message="later")).error == WHY


@pytest.mark.parametrize(
    ("stage", "thread_works", "process_lives", "after"),
    [
        (Stage.ENDING, True, True, Stage.ENDING),
        (Stage.ENDING, False, True, Stage.ENDING),
        (Stage.ENDING, True, False, Stage.ENDING),
        (Stage.ENDING, False, False, Stage.ENDED),
        (Stage.READY, False, False, Stage.ENDED),
        (Stage.READY, False, True, Stage.READY),
        (Stage.WORKING, False, False, Stage.WORKING),
        (Stage.COMPLETE, False, False, Stage.COMPLETE),
    ],
)
def test_c10_ended_is_said_only_when_neither_thread_nor_process_is_left(
    stage: Stage, thread_works: bool, process_lives: bool, after: Stage
) -> None:
    before = operation(stage)
    assert rules.settled(before, thread_works=thread_works, process_lives=process_lives, now=5.0).stage is after


ASKED = StopRequest(job_id=JOB, op_generation=1, process_key="m#0")
EXACT = replace(ASKED, process_instance="p1", address="host:50051")


@pytest.mark.parametrize(
    ("stage", "request_", "has_process", "outcome", "move"),
    [
        (None, ASKED, False, StopOutcome.ALREADY_GONE, StopMove.BURY),
        (Stage.CLAIMING, ASKED, False, StopOutcome.ALREADY_GONE, StopMove.BURY),
        (Stage.WORKING, ASKED, False, StopOutcome.TERMINATED, StopMove.END),
        (Stage.WORKING, EXACT, True, StopOutcome.TERMINATED, StopMove.END),
        (Stage.READY, ASKED, True, StopOutcome.TERMINATED, StopMove.END),
        (Stage.ENDING, ASKED, True, StopOutcome.TERMINATED, StopMove.END),
        (Stage.ENDED, ASKED, False, StopOutcome.ALREADY_GONE, StopMove.NOTHING),
        (Stage.GONE, ASKED, False, StopOutcome.ALREADY_GONE, StopMove.NOTHING),
        (Stage.COMPLETE, ASKED, True, StopOutcome.FINISHED, StopMove.NOTHING),
        (Stage.COMPLETE, EXACT, True, StopOutcome.TERMINATED, StopMove.END),
        (Stage.COMPLETE, EXACT, False, StopOutcome.ALREADY_GONE, StopMove.NOTHING),
    ],
)
def test_sc_01_what_an_exact_stop_does(
    stage: Stage | None, request_: StopRequest, has_process: bool, outcome: StopOutcome, move: StopMove
) -> None:
    known = operation(stage, process_instance="p1", address="host:50051") if stage else None
    plan = rules.stop_plan(request_, known, running() if has_process else None)
    assert (plan.outcome, plan.move) == (outcome, move)


@pytest.mark.parametrize("stage", [Stage.WORKING, Stage.READY, Stage.COMPLETE])
@pytest.mark.parametrize("with_process", [True, False])
@pytest.mark.parametrize("changes", [{"process_key": "m#1"}, {"process_instance": "p2"}, {"address": "host:50052"}])
def test_sc_01_any_mismatch_stops_nothing(stage: Stage, with_process: bool, changes: dict[str, str]) -> None:
    known = operation(stage, process_instance="p1", address="host:50051")
    plan = rules.stop_plan(replace(EXACT, **changes), known, running() if with_process else None)
    assert (plan.outcome, plan.move) == (StopOutcome.NOT_MINE, StopMove.NOTHING)


def test_sc_01_a_stop_that_names_a_process_of_another_operation_stops_nothing() -> None:
    plan = rules.stop_plan(replace(EXACT, op_generation=2), None, running())
    assert (plan.outcome, plan.move) == (StopOutcome.NOT_MINE, StopMove.NOTHING)


@pytest.mark.parametrize(
    ("others", "move"),
    [
        ([], StartMove.START),
        ([running()], StartMove.START),  # its own
        ([running(op_generation=2, slot=1)], StartMove.START),
        ([running(op_generation=2)], StartMove.REFUSE),
        ([running(op_generation=2, ending=True)], StartMove.WAIT),
        ([running(op_generation=2, ending=True), running(op_generation=3)], StartMove.REFUSE),
    ],
)
def test_an_earlier_process_of_the_same_key_is_waited_for_only_when_it_is_doomed(
    others: list[rules.Running], move: StartMove
) -> None:
    assert rules.start_move(operation(), others) is move


def test_three_refusals_in_a_row_end_a_process_and_one_answer_forgives_them() -> None:
    refusals, over = 0, False
    for refused in (True, True, False, True, True):
        refusals, over = rules.refusals_after(refusals, refused=refused)
        assert not over
    assert rules.refusals_after(refusals, refused=True) == (3, True)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (Stage.CLAIMING, OpState.CLAIMED),
        (Stage.WORKING, OpState.CLAIMED),
        (Stage.READY, OpState.READY),
        (Stage.ENDING, OpState.CLAIMED),
        (Stage.ENDED, OpState.ENDED),
        (Stage.COMPLETE, None),
        (Stage.GONE, None),
    ],
)
def test_how_a_stage_is_said_and_that_a_cause_comes_with_the_end_only(stage: Stage, said: OpState | None) -> None:
    report = rules.operation_report(operation(stage, error=WHY))
    assert (report and report.op_state) == said
    if report is not None:
        assert (report.error == WHY) == (stage is Stage.ENDED)


@pytest.mark.parametrize(("ready", "ending", "said"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_process_that_is_being_ended_is_not_said_to_be_ready(ready: bool, ending: bool, said: bool) -> None:
    assert rules.process_report(running(ready=ready, ending=ending)).ready is said
