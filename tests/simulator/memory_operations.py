"""`OperationMoves` on rows in memory, and what a registration proves about older lives of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from localai.ids import JobId, NodeId, ProcessInstance, is_uuid
from localai.jobs.event_rules import Claim, ConfirmStop, Missing, NewIncarnation, Reported, WorkGone
from localai.jobs.job import LIVE, Job, State, StopState
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.operation_rules import Cause, OperationReport, OpState, Phase, Report
from localai.jobs.ports import ClaimResult, Moved, ReportResult
from localai.jobs.quarantine_rules import Streak
from localai.jobs.report_rules import Findings, NodeRows, ReplicaRow, assess
from localai.jobs.rows import EVENT_NAMES
from tests.simulator.tables import Tables


class MemoryOperations:
    """What agents may do."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def claim(
        self, node_id: NodeId, incarnation: int, job_id: JobId, op_generation: int, seq: int | None
    ) -> ClaimResult:
        before = self._tables.read(job_id)
        node = self._tables.nodes.get(node_id)
        if node is None or node.incarnation != incarnation:
            return ClaimResult(granted=False, job=before, current_incarnation=False)
        event = Claim(
            op_generation=op_generation,
            node_id=node_id,
            incarnation=incarnation,
            seq=node.report_seq if seq is None else seq,
        )
        job = self._tables.move(job_id, event)
        if self._tables.silent_nodes.pop(node_id, None) is not None:
            for key in [key for key, streak in self._tables.streaks.items() if _of_silence(streak, node_id)]:
                del self._tables.streaks[key]
        if job is None:
            return ClaimResult(granted=False, job=before, current_incarnation=True)
        if before is None or before.node_incarnation is None:
            self._tables.record(EVENT_NAMES[Claim], job, _actor(node_id), {"incarnation": incarnation})
        return ClaimResult(granted=True, job=job, current_incarnation=True)

    def stages(self, node_id: NodeId, path: str) -> bool:
        jobs = (job for job in self._tables.jobs.values() if job.node_id == node_id and job.state == State.RUNNING)
        return any(
            path in [file["path"] for file in (job.args.get("order") or {}).get("files", ())]
            for job in jobs
            if job.op_state == OpState.CLAIMED
        )

    def report(self, node_id: NodeId, report: Report) -> ReportResult:
        node = self._tables.nodes.get(node_id)
        if node is None:
            return ReportResult(node_known=False, current_incarnation=False)
        if node.incarnation != report.incarnation:
            return ReportResult(current_incarnation=False)
        rows = self._rows(node_id, report)
        findings = assess(node_id, report, rows)
        if not findings.change_rows:
            return ReportResult(findings=findings, rows=rows.jobs)
        if report.seq <= node.report_seq:
            return ReportResult(rows=rows.jobs)
        node.report_seq = report.seq
        moved = self._apply(node_id, report, rows, findings)
        routing_changed = self._change_replicas(findings)
        after = {**rows.jobs, **{job.id: job for _, job in moved}}
        return ReportResult(findings=findings, rows=after, moved=moved, routing_changed=routing_changed)

    def confirm_stop(self, job_id: JobId, op_generation: int, incarnation: int, actor: str) -> Job | None:
        job = self._tables.move(job_id, ConfirmStop(op_generation=op_generation, incarnation=incarnation))
        if job is not None:
            self._tables.free_replica(job_id)
            self._tables.record(EVENT_NAMES[ConfirmStop], job, actor, {"incarnation": incarnation})
        return job

    def new_incarnation(self, node_id: NodeId, incarnation: int) -> Sequence[Moved]:
        """In the transaction of a registration."""
        moved: list[Moved] = []
        actor = _actor(node_id)
        here = sorted((job for job in self._tables.opened() if job.node_id == node_id), key=lambda job: job.id)
        for job in here:
            if job.state == State.RUNNING:
                event = NewIncarnation(node_id=node_id, incarnation=incarnation)
                ended = self._tables.end(job.id, event, actor)
                if ended is not None:
                    moved.append((NewIncarnation, ended))
        for job in here:
            if job.legacy and not self._tables.nodes[node_id].reports_operations:
                continue
            if job.stop_state == StopState.PENDING and (job.node_incarnation or 0) < incarnation:
                confirmed = self.confirm_stop(job.id, job.op_generation or 0, incarnation, actor)
                if confirmed is not None:
                    moved.append((ConfirmStop, confirmed))
        for replica in list(self._tables.replicas.values()):
            if (
                replica.node_id == node_id
                and replica.node_incarnation is not None
                and replica.node_incarnation < incarnation
            ):
                del self._tables.replicas[(replica.model, replica.slot)]
        return moved

    # Steps of a report

    def _apply(self, node_id: NodeId, report: Report, rows: NodeRows, findings: Findings) -> list[Moved]:
        actor = _actor(node_id)
        moved: list[Moved | None] = []
        for operation in findings.reported:
            moved.append(self.progress(node_id, report.incarnation, operation, rows.jobs[JobId(operation.job_id)]))
        for job in findings.missing:
            moved.append(self._miss(node_id, report, job))
        for job in findings.confirmed:
            confirmed = self.confirm_stop(job.id, job.op_generation or 0, report.incarnation, actor)
            moved.append((ConfirmStop, confirmed) if confirmed is not None else None)
        for job in findings.cleaned:
            cleaned = self._tables.move(job.id, WorkGone(node_id=node_id))
            if cleaned is not None:
                self._tables.record(EVENT_NAMES[WorkGone], cleaned, actor)
                moved.append((WorkGone, cleaned))
        return [move for move in moved if move is not None]

    def progress(self, node_id: NodeId, incarnation: int, operation: OperationReport, before: Job) -> Moved | None:
        """What one operation of a report says."""
        event = Reported(
            op_generation=operation.op_generation,
            node_id=node_id,
            incarnation=incarnation,
            op_state=operation.op_state,
            phase=operation.phase,
            progress=operation.progress,
            bytes_done=operation.bytes_done,
            bytes_total=operation.bytes_total,
            file_index=operation.file_index,
            files_total=operation.files_total,
            message=operation.message,
            process_instance=ProcessInstance(operation.process_instance) if operation.process_instance else None,
            address=operation.address,
            identity=operation.identity,
            error=asdict(operation.error) if operation.error else None,
        )
        job = self._tables.move(JobId(operation.job_id), event)
        if job is None:
            return None
        held = self._tables.replica_of(job.id)
        if operation.process_secret is not None and held is not None and held.state in ("staging", "loading"):
            self._tables.set_replica(held, process_secret=operation.process_secret)
        if job.phase == Phase.LOADING and before.phase != Phase.LOADING:
            replica = self._tables.replica_of(job.id)
            if replica is not None and replica.state == "staging":
                self._tables.set_replica(replica, state="loading")
        if job.op_state != before.op_state or job.phase != before.phase:
            name = job.op_state.value if job.op_state in (OpState.READY, OpState.ENDED) else "phase"
            self._tables.record(f"operation_{name}", job, _actor(node_id), job.op_error)
        return (Reported, job)

    def _miss(self, node_id: NodeId, report: Report, job: Job) -> Moved | None:
        event = Missing(
            op_generation=job.op_generation or 0, node_id=node_id, incarnation=report.incarnation, seq=report.seq
        )
        after = self._tables.move(job.id, event)
        if after is None:
            return None
        self._tables.record(
            EVENT_NAMES[Missing], after, _actor(node_id), {"count": after.op_missing, "seq": report.seq}
        )
        return (Missing, after)

    def _change_replicas(self, findings: Findings) -> bool:
        changed = False
        retired = {row.id for row in findings.retired}
        for replica in [row for row in self._tables.replicas.values() if row.id in retired]:
            if replica.state == "loaded":
                self._tables.set_replica(replica, state="unloading")
                changed = True
        ids = {row.id for row in findings.gone}
        for replica in [row for row in self._tables.replicas.values() if row.id in ids]:
            changed = self._tables.delete_replica(replica) or changed
        if changed:
            self._tables.raise_version()
        return changed

    def _rows(self, node_id: NodeId, report: Report) -> NodeRows:
        named = {operation.job_id for operation in report.operations} | {p.job_id for p in report.processes}
        ids = {job.id for job in self._tables.opened() if job.node_id == node_id}
        ids |= {JobId(job_id) for job_id in named if is_uuid(job_id) and job_id in self._tables.jobs}
        jobs = {job_id: self._tables.as_read(self._tables.jobs[job_id]) for job_id in sorted(ids)}
        return NodeRows(
            jobs=jobs,
            replicas=tuple(
                ReplicaRow(
                    id=row.id,
                    job_id=row.job_id,
                    op_generation=row.op_generation,
                    process_instance=row.process_instance,
                    state=row.state,
                )
                for row in self._tables.replicas.values()
                if row.node_id == node_id
            ),
            cleanups={
                ProcessInstance(job.subject): job
                for job in jobs.values()
                if job.kind == REPLICA_CLEANUP and job.state in LIVE and job.node_id == node_id
            },
        )


def _of_silence(streak: Streak, node_id: NodeId) -> bool:
    return (streak.node_id, streak.cause) == (node_id, Cause.WORKER_SILENT)


def _actor(node_id: NodeId) -> str:
    return f"node:{node_id}"
