"""What a cancel of one attempt is answered, as a table of rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from localai.ids import JobId
from localai.jobs.cancel_rules import CancelState, end_of, may_cancel, release_s, why_not
from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import KINDS, MODEL_INSTALL, MODEL_LOAD, MODEL_UNLOAD
from localai.loads.cancel_rules import has_work, load_cancel

pytestmark = pytest.mark.unit

NOW = datetime(2030, 1, 2, tzinfo=UTC)
RUNNING = Job(
    id=JobId("a"), kind=MODEL_LOAD, subject="m", generation=1, state=State.RUNNING, created_at=NOW, read_at=NOW
)
HELD = {"finished_at": NOW, "hold_until": NOW + timedelta(seconds=7.2)}
PENDING = replace(RUNNING, state=State.CANCELLED, stop_state=StopState.PENDING, **HELD)
CONFIRMED = replace(PENDING, stop_state=StopState.CONFIRMED)
FAILED = replace(CONFIRMED, state=State.FAILED)
#: A worker of an older version never confirms.
GIVEN_UP = replace(CONFIRMED, stop_state=StopState.NONE)
SUCCEEDED = replace(RUNNING, state=State.SUCCEEDED, finished_at=NOW)
OTHER = replace(RUNNING, id=JobId("b"))


@pytest.mark.parametrize(
    ("named", "current", "state"),
    [
        (PENDING, PENDING, CancelState.STOPPING),
        (PENDING, None, CancelState.STOPPING),
        (CONFIRMED, CONFIRMED, CancelState.STOPPED),
        (CONFIRMED, None, CancelState.STOPPED),
        (FAILED, FAILED, CancelState.STOPPED),
        (GIVEN_UP, None, CancelState.GONE),
        (SUCCEEDED, None, CancelState.GONE),
        (None, None, CancelState.GONE),
        (None, OTHER, CancelState.CONFLICT),
        (SUCCEEDED, OTHER, CancelState.CONFLICT),
        (CONFIRMED, OTHER, CancelState.CONFLICT),
        (PENDING, OTHER, CancelState.CONFLICT),
    ],
)
def test_sc_08_every_pair_of_rows_has_its_answer(named: Job | None, current: Job | None, state: CancelState) -> None:
    answer = load_cancel("m", "a", named, current)
    assert answer.state is state
    assert answer.current_job_id == ("b" if state is CancelState.CONFLICT else None)
    assert answer.retry_after == (8 if state is CancelState.STOPPING else None)


@pytest.mark.parametrize(
    ("named", "current", "work"),
    [
        (RUNNING, RUNNING, True),
        (replace(RUNNING, state=State.QUEUED), None, True),
        (PENDING, PENDING, True),
        (PENDING, None, True),
        (PENDING, OTHER, False),
        (CONFIRMED, CONFIRMED, False),
        (SUCCEEDED, None, False),
        (None, OTHER, False),
    ],
)
def test_only_what_runs_or_may_run_is_ended(named: Job | None, current: Job | None, work: bool) -> None:
    assert has_work(named, current) is work


def test_a_hold_that_is_over_while_its_worker_is_silent_is_asked_about_in_a_second() -> None:
    assert release_s(replace(PENDING, hold_until=NOW - timedelta(seconds=3))) == 1
    assert release_s(PENDING) == 8


def test_loads_installs_and_unloads_may_be_cancelled_and_the_others_say_why_not() -> None:
    for name in KINDS:
        reason = why_not(replace(RUNNING, kind=name))
        assert (reason is None) is (name in (MODEL_LOAD, MODEL_INSTALL, MODEL_UNLOAD)), name
        assert may_cancel(replace(RUNNING, kind=name)) is (reason is None)
    assert not may_cancel(CONFIRMED)
    assert why_not(replace(RUNNING, kind="of.tomorrow")) is not None


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (PENDING, CancelState.STOPPING),
        (replace(FAILED, stop_state=StopState.PENDING), CancelState.STOPPING),
        (CONFIRMED, CancelState.STOPPED),
        (GIVEN_UP, CancelState.GONE),
        (FAILED, None),
        (SUCCEEDED, None),
    ],
)
def test_a_job_that_ended_by_itself_was_not_cancelled(job: Job, state: CancelState | None) -> None:
    assert end_of(job) is state
