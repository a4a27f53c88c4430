"""What a full report proves, as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from localai.ids import JobId, NodeId, ProcessInstance, ReplicaId
from localai.jobs.job import Job, State
from localai.jobs.operation_rules import Answer, OperationReport, OpState, Phase, ProcessReport, Report
from localai.jobs.report_rules import Findings, NodeRows, ReplicaRow, answer, assess
from tests.unit.jobs.builders import NODE, at, claimed, queued, ready, sent, stopping

pytestmark = pytest.mark.unit

OP = OperationReport(job_id="job-1", op_generation=7, op_state=OpState.CLAIMED, phase=Phase.STAGING)
PROCESS = ProcessReport(
    process_instance="p1", model="m", slot=0, job_id="job-1", op_generation=7, address="a", pid=1, ready=True
)
REPLICA = ReplicaRow(
    id=ReplicaId("r1"), job_id=JobId("job-1"), op_generation=7, process_instance=ProcessInstance("p1"), state="loaded"
)
CLEANUP = queued(id=JobId("cleanup"), kind="replica.cleanup", subject="p1", node_id=NODE)
SUCCEEDED = ready(state=State.SUCCEEDED, lease_expires_at=None, finished_at=at(-5))


def found(*jobs: Job, report: dict[str, Any], replicas: tuple[ReplicaRow, ...] = (), cleanup: bool = False) -> Findings:
    rows = NodeRows(
        jobs={job.id: job for job in jobs},
        replicas=replicas,
        cleanups={ProcessInstance("p1"): CLEANUP} if cleanup else {},
    )
    return assess(NODE, Report(**{"incarnation": 3, "seq": 20, **report}), rows)


def test_a_listed_operation_of_a_running_job_is_progress() -> None:
    assert found(claimed(), report={"operations": (OP,)}).reported == (OP,)


@pytest.mark.parametrize("job", [sent(), claimed(node_incarnation=2), stopping()])
def test_an_operation_that_the_row_does_not_know_as_claimed_here_is_no_progress(job: Job) -> None:
    assert found(job, report={"operations": (OP,)}).reported == ()


@pytest.mark.parametrize(
    ("job", "seq", "missing"), [(claimed(), 20, True), (claimed(), 10, False), (sent(), 20, False), (ready(), 20, True)]
)
def test_absence_counts_only_after_the_claim(job: Job, seq: int, missing: bool) -> None:
    assert bool(found(job, report={"seq": seq}).missing) == missing


@pytest.mark.parametrize(
    ("job", "report", "confirmed"),
    [
        (stopping(), {}, True),
        (stopping(), {"seq": 10}, False),
        (stopping(), {"incarnation": 4, "seq": 1}, True),
        (stopping(), {"incarnation": 2}, False),
        (stopping(), {"operations": (OP,)}, False),
        (stopping(), {"operations": (replace(OP, op_state=OpState.ENDED),)}, True),
        (stopping(), {"processes": (PROCESS,)}, False),
        (stopping(), {"operations": (replace(OP, op_generation=6),)}, True),
        (stopping(node_id=NodeId("other")), {}, False),
    ],
)
def test_a_stop_is_confirmed_by_an_end_or_by_absence_of_all(job: Job, report: dict[str, Any], confirmed: bool) -> None:
    assert bool(found(job, report=report).confirmed) == confirmed


@pytest.mark.parametrize(
    ("replica", "jobs", "gone"),
    [
        (REPLICA, (SUCCEEDED,), True),
        (replace(REPLICA, state="unloading"), (SUCCEEDED,), True),
        (replace(REPLICA, state="unloading"), (stopping(),), False),
        (replace(REPLICA, state="staging", process_instance=None), (claimed(),), False),
    ],
)
def test_a_replica_whose_process_is_not_listed_is_gone(replica: ReplicaRow, jobs: tuple[Job, ...], gone: bool) -> None:
    assert bool(found(*jobs, report={}, replicas=(replica,)).gone) == gone
    assert not found(*jobs, report={"processes": (PROCESS,)}, replicas=(replica,)).gone


@pytest.mark.parametrize(
    ("state", "ready", "retired"),
    [("loaded", False, True), ("loaded", True, False), ("unloading", False, False), ("loading", False, False)],
)
def test_a_replica_whose_process_is_being_ended_is_retired(state: str, ready: bool, retired: bool) -> None:
    report = {"processes": (replace(PROCESS, ready=ready),)}
    findings = found(SUCCEEDED, report=report, replicas=(replace(REPLICA, state=state),))
    assert bool(findings.retired) == findings.change_rows == retired
    assert not findings.gone
    assert not findings.orphans


@pytest.mark.parametrize(
    ("jobs", "replicas", "cleanup", "orphan"),
    [
        ((), (), False, True),
        ((SUCCEEDED,), (), False, True),
        ((SUCCEEDED,), (REPLICA,), False, False),
        ((SUCCEEDED,), (replace(REPLICA, state="unloading"),), False, False),
        ((claimed(),), (), False, False),
        ((sent(op_generation=8, generation=8),), (), False, True),
        ((stopping(),), (), False, False),
        ((), (), True, False),
    ],
)
def test_a_process_that_no_row_owns_is_an_orphan(
    jobs: tuple[Job, ...], replicas: tuple[ReplicaRow, ...], cleanup: bool, orphan: bool
) -> None:
    findings = found(*jobs, report={"processes": (PROCESS,)}, replicas=replicas, cleanup=cleanup)
    assert bool(findings.orphans) == orphan


def test_processes_of_cleanups_and_of_doomed_jobs_are_stopped_by_name() -> None:
    assert found(report={"processes": (PROCESS,)}, cleanup=True).stop_processes == ("p1",)
    assert found(stopping(), report={"processes": (PROCESS,)}).stop_processes == ("p1",)
    listed = {"processes": (PROCESS,), "operations": (OP,)}
    assert found(stopping(), report=listed).stop_processes == (), "the operation itself is answered with stop"
    assert found(claimed(), report={"processes": (PROCESS,)}).stop_processes == ()


def test_a_cleanup_ends_when_its_process_is_not_listed() -> None:
    assert found(report={}, cleanup=True).cleaned == (CLEANUP,)
    assert found(report={"processes": (PROCESS,)}, cleanup=True).cleaned == ()


def test_a_steady_report_changes_no_row() -> None:
    assert not found(SUCCEEDED, report={"processes": (PROCESS,)}, replicas=(REPLICA,)).change_rows


@pytest.mark.parametrize(
    ("job", "incarnation", "expected"),
    [
        (None, 3, Answer.WAIT),
        (claimed(), 3, Answer.KEEP),
        (claimed(), 4, Answer.WAIT),
        (claimed(lease_expires_at=at(-1)), 3, Answer.WAIT),
        (sent(), 3, Answer.WAIT),
        (claimed(op_generation=8), 3, Answer.WAIT),
        (SUCCEEDED, 3, Answer.COMPLETE),
        (stopping(), 3, Answer.STOP),
        (stopping(node_incarnation=None), 3, Answer.STOP),
        (stopping(op_generation=8), 3, Answer.WAIT),
    ],
)
def test_what_the_row_answers(job: Job | None, incarnation: int, expected: Answer) -> None:
    assert answer(OP, NODE, incarnation, job) is expected
