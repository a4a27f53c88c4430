"""What one full report of an agent proves about the rows of its node, and what each operation in it is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localai.ids import JobId, NodeId, ProcessInstance, ReplicaId
from localai.jobs.event_rules import ConfirmStop, Missing
from localai.jobs.guard_rules import proves_end, younger_than_claim
from localai.jobs.job import DOOMED, Job, State, StopState
from localai.jobs.operation_rules import (
    Answer,
    OperationReport,
    OpState,
    ProcessReport,
    Report,
    answer_for,
    operation_key,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """The part of a replica row that a report can contradict."""

    id: ReplicaId
    job_id: JobId
    op_generation: int
    process_instance: ProcessInstance | None
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRows:
    """Everything the database says about work on one node.

    ``jobs``: those that run there, those whose stop is pending there, and those the report names. ``cleanups``: live
    `replica.cleanup` jobs of the node by the process instance they are about.
    """

    jobs: Mapping[JobId, Job]
    replicas: Sequence[ReplicaRow]
    cleanups: Mapping[ProcessInstance, Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What follows from a report."""

    #: Running operations the report describes.
    reported: tuple[OperationReport, ...] = ()
    #: Running jobs whose claimed operation the report does not know.
    missing: tuple[Job, ...] = ()
    #: Pending stops of which the report is the proof.
    confirmed: tuple[Job, ...] = ()
    #: Replica rows whose process lives and serves no more: it is being ended.
    retired: tuple[ReplicaRow, ...] = ()
    #: Replica rows whose process has ended.
    gone: tuple[ReplicaRow, ...] = ()
    #: Cleanup jobs whose process has ended.
    cleaned: tuple[Job, ...] = ()
    #: Processes that no row owns: each becomes a cleanup job.
    orphans: tuple[ProcessReport, ...] = ()
    #: Instances that a committed row wants gone and that still run.
    stop_processes: tuple[ProcessInstance, ...] = ()

    @property
    def change_rows(self) -> bool:
        changes = (self.reported, self.missing, self.confirmed, self.retired, self.gone, self.cleaned, self.orphans)
        return any(changes)


def assess(node_id: NodeId, report: Report, rows: NodeRows) -> Findings:
    """Compare a report with the rows. The caller has made sure that the report is the youngest of its incarnation."""
    listed = {operation_key(op.job_id, op.op_generation): op for op in report.operations}
    working = {operation_key(process.job_id, process.op_generation) for process in report.processes}
    running = {ProcessInstance(process.process_instance) for process in report.processes}
    serving = {ProcessInstance(process.process_instance) for process in report.processes if process.ready}

    def of(job: Job) -> tuple[str, int]:
        return operation_key(job.id, job.op_generation or 0)

    claimed = [
        job for job in rows.jobs.values() if job.node_id == node_id and job.node_incarnation == report.incarnation
    ]
    pending = [job for job in rows.jobs.values() if job.node_id == node_id and job.stop_state == StopState.PENDING]
    in_work = {of(job): job for job in claimed if job.state == State.RUNNING}
    orphans = tuple(process for process in report.processes if _nobody_owns(process, node_id, rows))
    return Findings(
        reported=tuple(op for key, op in listed.items() if key in in_work),
        missing=tuple(job for key, job in in_work.items() if key not in listed and _younger(job, report)),
        confirmed=tuple(
            job for job in pending if of(job) not in working and _has_ended(job, listed.get(of(job)), report)
        ),
        retired=tuple(
            row for row in rows.replicas if row.state == "loaded" and row.process_instance in running - serving
        ),
        gone=tuple(
            row
            for row in rows.replicas
            if row.process_instance is not None
            and row.process_instance not in running
            and (row.state == "loaded" or (row.state == "unloading" and not _stop_pending(row, rows)))
        ),
        cleaned=tuple(job for instance, job in rows.cleanups.items() if instance not in running),
        orphans=orphans,
        stop_processes=tuple(
            sorted(
                {instance for instance in rows.cleanups if instance in running}
                | {
                    ProcessInstance(process.process_instance)
                    for process in report.processes
                    if operation_key(process.job_id, process.op_generation) not in listed
                    and _doomed(process, node_id, rows)
                }
            )
        ),
    )


def _has_ended(job: Job, op: OperationReport | None, report: Report) -> bool:
    proof = ConfirmStop(op_generation=job.op_generation or 0, incarnation=report.incarnation)
    if not proves_end(job, proof, job.read_at):
        return False
    if op is not None:
        return op.op_state == OpState.ENDED
    return job.node_incarnation != report.incarnation or _younger(job, report)


def _younger(job: Job, report: Report) -> bool:
    absent = Missing(
        op_generation=job.op_generation or 0,
        node_id=job.node_id or NodeId(""),
        incarnation=report.incarnation,
        seq=report.seq,
    )
    return younger_than_claim(job, absent, job.read_at)


def _stop_pending(row: ReplicaRow, rows: NodeRows) -> bool:
    job = rows.jobs.get(row.job_id)
    return job is not None and job.stop_state == StopState.PENDING


def _doomed(process: ProcessReport, node_id: NodeId, rows: NodeRows) -> bool:
    job = rows.jobs.get(JobId(process.job_id))
    return (
        job is not None
        and job.state in DOOMED
        and job.stop_state == StopState.PENDING
        and (job.op_generation, job.node_id) == (process.op_generation, node_id)
    )


def _nobody_owns(process: ProcessReport, node_id: NodeId, rows: NodeRows) -> bool:
    instance = ProcessInstance(process.process_instance)
    if instance in rows.cleanups or any(row.process_instance == instance for row in rows.replicas):
        return False
    job = rows.jobs.get(JobId(process.job_id))
    if job is None or (job.op_generation, job.node_id) != (process.op_generation, node_id):
        return True
    return not (job.state == State.RUNNING or job.stop_state == StopState.PENDING)


def answer(op: OperationReport, node_id: NodeId, incarnation: int, job: Job | None) -> Answer:
    """What the row says to one operation of a report.

    A running row answers only the incarnation that claimed it: what was never claimed has no grant to prolong. A
    doomed row stops whatever names its operation.
    """
    if job is None:
        return answer_for(None, lease_valid=False, op_matches=False)
    named = job.op_generation == op.op_generation and job.node_id == node_id
    matches = named and (job.state in DOOMED or job.node_incarnation == incarnation)
    return answer_for(job.state.value, lease_valid=job.lease_valid(job.read_at), op_matches=matches)
