"""What is said about an attempt while it goes on and after it failed. LJ-12."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localai.errors import ModelHeld, ModelQuarantined
from localai.jobs.job import Job, State, StopState
from localai.jobs.operation_rules import Phase
from localai.loads.eta_rules import LoadDurations
from localai.loads.status_rules import load_status, quarantined_status
from tests.unit.jobs.builders import at, claimed, queued, running, stopping
from tests.unit.jobs.test_quarantine_rules import streak

pytestmark = pytest.mark.unit


def staging(**changes: object) -> Job:
    values = {"phase": Phase.STAGING, "node_name": "nvidia-thor", "phase_started_at": at(-100)}
    return claimed(**{**values, "bytes_done": 400, "bytes_total": 1000, "file_index": 1, "files_total": 2, **changes})


def test_a_staging_load_says_where_it_is_and_how_long_it_will_take() -> None:
    status = load_status(staging())
    assert status.to_json() == {
        "model": "m",
        "state": "staging",
        "node": "nvidia-thor",
        "progress": 40.0,
        "bytes_sent": 400,
        "total_bytes": 1000,
        "file_index": 1,
        "total_files": 2,
        "eta_seconds": 145,
        "job_id": "job-1",
        "attempts": 1,
        "lease_expires_in": 20,
    }
    assert status.message() == "model m is staging on node nvidia-thor (40%, ETA ~2m)"
    assert status.retry_after_header() == 145


def test_a_load_that_another_owner_goes_on_with_says_so() -> None:
    assert load_status(staging(adoptions=2)).to_json()["adoptions"] == 2


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("cancelled by request", "the load of model m was cancelled"),
        ("its node goes", "the load of model m was cancelled: its node goes"),
    ],
)
def test_a_cancel_for_a_reason_of_the_server_says_which(error: str, said: str) -> None:
    job = staging(state=State.CANCELLED, error=error, owner=None, lease_expires_at=None, finished_at=at(0))
    assert load_status(job).message() == said


@pytest.mark.parametrize(
    "job",
    [
        staging(phase_started_at=at(-0.9)),
        staging(bytes_done=0),
        staging(phase=Phase.LOADING),
        staging(bytes_total=0),
        staging(state=State.QUEUED, owner=None, lease_expires_at=None),
        queued(),
    ],
)
def test_an_eta_is_left_out_rather_than_guessed(job: Job) -> None:
    assert load_status(job).eta_seconds is None
    assert "eta_seconds" not in load_status(job).to_json()


@pytest.mark.parametrize(("done", "header"), [(999, 5), (400, 145), (1, 300)])
def test_lj_12_retry_after_is_between_5_and_300_while_loading(done: int, header: int) -> None:
    assert load_status(staging(bytes_done=done)).retry_after_header() == header
    assert 5 <= load_status(queued()).retry_after_header() <= 300


def test_loads_like_it_that_finished_give_bounds_and_a_time_where_no_bytes_move() -> None:
    finished = LoadDurations(pending_s=1, installing_s=1, staging_s=9, loading_s=80, backend="fault", size_bytes=0)
    loading = staging(phase=Phase.LOADING, phase_started_at=at(-20), args={"order": {"backend": "fault"}})
    body = load_status(loading, history=[finished] * 3).to_json()
    assert body["eta_low"] <= body["eta_seconds"] <= body["eta_high"]
    assert 50 <= body["eta_seconds"] <= 70
    assert "ETA ~" in load_status(loading, history=[finished] * 3).message()


def test_a_held_model_says_the_cause_and_the_seconds_left() -> None:
    job = stopping(state=State.FAILED, error_cause="disk_full", error="worker out of disk", hold_until=at(14.2))
    status = load_status(job)
    assert (status.state, status.job_state, status.retry_after, status.retry_after_header()) == (
        "failed",
        "failed",
        15,
        15,
    )
    assert status.message() == "the load of model m failed: worker out of disk"
    assert (status.stopping, status.stop_deadline) == (True, at(140))
    body = status.to_json()
    assert (body["last_error"], body["stopping"], body["retry_after"]) == ("worker out of disk", True, 15)
    assert body["stop_deadline"] == "2026-01-01T12:02:20Z"
    assert "lease_expires_in" not in body


def test_a_model_that_no_node_may_hold_says_why_and_that_waiting_does_not_help() -> None:
    status = quarantined_status("m", [streak()])
    assert "localai jobs retry m" in status.message()
    assert status.retry_after_header() == 300
    assert isinstance(status.refusal(), ModelQuarantined)
    body = status.to_json()
    assert (body["state"], body["error_cause"], body["last_error"]) == ("failed", "start_failed", "it exits")
    assert "retry_after" not in body
    (told,) = body["quarantined"]
    assert (told["node"], told["cause"], told["failures"]) == ("n1", "start_failed", 3)


def test_a_held_model_is_refused_as_such_whatever_quarantines_it_has_elsewhere() -> None:
    held = replace(load_status(stopping(state=State.FAILED)), quarantined=(streak(),))
    assert type(held.refusal()) is ModelHeld
    assert held.to_json()["quarantined"]


def test_a_confirmed_stop_has_no_deadline_and_a_cancel_says_so() -> None:
    job = stopping(stop_state=StopState.CONFIRMED, cancel_requested_at=at(-3))
    body = load_status(job).to_json()
    assert "stop_deadline" not in body and "stopping" not in body
    assert body["cancel_requested"] is True
    assert load_status(job).message() == "the load of model m was cancelled"


def test_the_last_words_of_the_process_are_part_of_the_error() -> None:
    job = stopping(state=State.FAILED, error="it exits", error_detail={"stderr_tail": "on fire"})
    assert load_status(job).last_error == "it exits\non fire"
    same = stopping(state=State.FAILED, error="it exits: on fire", error_detail={"stderr_tail": "on fire"})
    assert load_status(same).last_error == "it exits: on fire"


def test_a_lease_that_ran_out_is_negative() -> None:
    assert load_status(running(lease_expires_at=at(-3.5))).lease_expires_in == -4


def test_an_attempt_that_succeeded_is_told_as_such() -> None:
    job = claimed(state=State.SUCCEEDED, lease_expires_at=None, finished_at=at(0), phase=Phase.LOADING)
    status = load_status(job)
    assert (status.job_state, status.state, status.retry_after) == ("succeeded", "loading", None)


def test_bytes_of_a_live_install_are_shown_by_file() -> None:
    install = running(kind="model.install", bytes_done=50, bytes_total=200, file_index=3, files_total=4)
    status = load_status(running(), install)
    assert (status.progress, status.bytes_sent, status.total_files) == (56.2, 50, 4)
    assert load_status(claimed(), install).total_bytes == 0, "once placed, its own bytes count"
