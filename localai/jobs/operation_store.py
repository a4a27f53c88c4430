"""How what an agent says reaches the rows, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from localai.ids import JobId, NodeId, ProcessInstance, ReplicaId, is_uuid
from localai.jobs.attempts import Ending, end
from localai.jobs.effect_rules import MISSING_REPORTS, OPERATION_LOST, WORKER_RESTARTED
from localai.jobs.event_rules import Claim, ConfirmStop, Missing, NewIncarnation, Reported, WorkGone
from localai.jobs.job import LIVE, Job, State, Windows
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.operation_rules import Cause, OperationReport, OpState, Phase, Report
from localai.jobs.ports import ClaimResult, Moved, ReportResult
from localai.jobs.report_rules import Findings, NodeRows, ReplicaRow, assess
from localai.jobs.rows import EVENT_NAMES, SQL, jobs_of, one_job, record, to_json


class PgOperationStore:
    """`OperationMoves` on PostgreSQL."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, snapshot: UnitOfWorkFactory, windows: Windows) -> None:
        """``snapshot`` opens REPEATABLE READ transactions: rows read in one of them belong to one moment."""
        self._unit_of_work, self._snapshot, self._windows = unit_of_work, snapshot, windows

    def claim(
        self, node_id: NodeId, incarnation: int, job_id: JobId, op_generation: int, seq: int | None
    ) -> ClaimResult:
        parameters = {
            "id": job_id,
            "op_generation": op_generation,
            "node": node_id,
            "incarnation": incarnation,
            "seq": seq,
        }
        with self._unit_of_work() as uow:
            before = one_job(uow.execute(SQL["read_job"], {"id": job_id}))
            current = uow.execute(SQL["share_node"], {"node": node_id}).scalar_one_or_none()
            if current != incarnation:
                return ClaimResult(granted=False, job=before, current_incarnation=False)
            job = one_job(uow.execute(SQL["claim_operation"], parameters))
            if uow.execute(SQL["took_order"], {"node": node_id}).first() is not None:
                uow.execute(SQL["forget_silence"], {"node": node_id, "cause": Cause.WORKER_SILENT})
            if job is None:
                job = one_job(uow.execute(SQL["read_job"], {"id": job_id}))
                return ClaimResult(granted=False, job=job, current_incarnation=True)
            if before is None or before.node_incarnation is None:
                record(uow, EVENT_NAMES[Claim], job, _actor(node_id), {"incarnation": incarnation})
            return ClaimResult(granted=True, job=job, current_incarnation=True)

    def stages(self, node_id: NodeId, path: str) -> bool:
        with self._unit_of_work() as uow:
            return bool(uow.execute(SQL["stages_file"], {"node": node_id, "path": path}).scalar_one())

    def report(self, node_id: NodeId, report: Report) -> ReportResult:
        with self._snapshot() as uow:
            seen = uow.execute(SQL["read_node"], {"node": node_id}).one_or_none()
            if seen is None:
                return ReportResult(node_known=False, current_incarnation=False)
            if seen.incarnation != report.incarnation:
                return ReportResult(current_incarnation=False)
            rows = self._rows(uow, node_id, report, "jobs_on_node")
        findings = assess(node_id, report, rows)
        if not findings.change_rows:
            return ReportResult(findings=findings, rows=rows.jobs)
        return self._apply(node_id, report)

    def confirm_stop(self, job_id: JobId, op_generation: int, incarnation: int, actor: str) -> Job | None:
        """Confirm one pending stop in a transaction of its own, as a report and a registration do within theirs."""
        with self._unit_of_work() as uow:
            return self._confirm(uow, job_id, op_generation, incarnation, actor)

    def new_incarnation(self, uow: UnitOfWork, node_id: NodeId, incarnation: int) -> Sequence[Moved]:
        """What a registration proves about older lives of the agent; in the registration's own transaction."""
        life = {"node": node_id, "incarnation": incarnation}
        ending = Ending(
            move=NewIncarnation,
            guard="incarnation",
            to=State.FAILED,
            cause=Cause.WORKER_RESTARTED,
            error=WORKER_RESTARTED,
            ended=True,
            fence=life,
        )
        moved: list[Moved] = []
        for row in uow.execute(SQL["running_before_incarnation"], life).all():
            job = end(uow, self._windows, JobId(row.id), ending, actor=_actor(node_id))
            if job is not None:
                moved.append((NewIncarnation, job))
        for row in uow.execute(SQL["pending_before_incarnation"], life).all():
            job = self._confirm(uow, JobId(row.id), row.op_generation, incarnation, _actor(node_id))
            if job is not None:
                moved.append((ConfirmStop, job))
        uow.execute(SQL["delete_older_replicas"], life)
        return moved

    # Applying a report: the node's row is held, so reports of one node come one after the other.

    def _apply(self, node_id: NodeId, report: Report) -> ReportResult:
        life = {"node": node_id, "incarnation": report.incarnation, "seq": report.seq}
        with self._unit_of_work() as uow:
            if uow.execute(SQL["accept_report"], life).first() is None:
                return self._late(uow, node_id, report)
            rows = self._rows(uow, node_id, report, "lock_jobs_on_node")
            findings = assess(node_id, report, rows)
            moved = self._apply_findings(uow, node_id, report, rows, findings)
            routing_changed = self._change_replicas(uow, findings)
            after = {**rows.jobs, **{job.id: job for _, job in moved}}
            return ReportResult(findings=findings, rows=after, moved=moved, routing_changed=routing_changed)

    def _late(self, uow: UnitOfWork, node_id: NodeId, report: Report) -> ReportResult:
        """A report that is not the youngest changes nothing; its operations are still answered by their rows."""
        incarnation = uow.execute(SQL["share_node"], {"node": node_id}).scalar_one_or_none()
        rows = self._rows(uow, node_id, report, "jobs_on_node")
        return ReportResult(rows=rows.jobs, current_incarnation=incarnation == report.incarnation)

    def _apply_findings(
        self, uow: UnitOfWork, node_id: NodeId, report: Report, rows: NodeRows, findings: Findings
    ) -> list[Moved]:
        actor = _actor(node_id)
        moved: list[Moved | None] = []
        for operation in findings.reported:
            before = rows.jobs[JobId(operation.job_id)]
            moved.append(self._progress(uow, node_id, report.incarnation, operation, before))
        for job in findings.missing:
            moved.append(self._miss(uow, node_id, report, job))
        for job in findings.confirmed:
            confirmed = self._confirm(uow, job.id, job.op_generation or 0, report.incarnation, actor)
            moved.append((ConfirmStop, confirmed) if confirmed is not None else None)
        for job in findings.cleaned:
            parameters = {"id": job.id, "cleanup": REPLICA_CLEANUP, "node": node_id}
            cleaned = one_job(uow.execute(SQL["finish_cleanup"], parameters))
            if cleaned is not None:
                record(uow, EVENT_NAMES[WorkGone], cleaned, actor)
                moved.append((WorkGone, cleaned))
        return [move for move in moved if move is not None]

    def _progress(
        self, uow: UnitOfWork, node_id: NodeId, incarnation: int, operation: OperationReport, before: Job
    ) -> Moved | None:
        parameters = {
            **asdict(operation),
            "id": operation.job_id,
            "node": node_id,
            "incarnation": incarnation,
            "error": to_json(asdict(operation.error)) if operation.error else None,
        }
        secret = parameters.pop("process_secret")
        job = one_job(uow.execute(SQL["report_operation"], parameters))
        if job is None:
            return None
        if secret is not None:
            uow.execute(SQL["keep_secret"], {"id": job.id, "secret": secret})
        if job.phase == Phase.LOADING and before.phase != Phase.LOADING:
            uow.execute(SQL["load_replica"], {"id": job.id})
        if job.op_state != before.op_state or job.phase != before.phase:
            name = job.op_state.value if job.op_state in (OpState.READY, OpState.ENDED) else "phase"
            record(uow, f"operation_{name}", job, _actor(node_id), job.op_error)
        return (Reported, job)

    def _miss(self, uow: UnitOfWork, node_id: NodeId, report: Report, job: Job) -> Moved | None:
        parameters = {
            "id": job.id,
            "op_generation": job.op_generation,
            "node": node_id,
            "incarnation": report.incarnation,
            "seq": report.seq,
            "missing_reports": MISSING_REPORTS,
            "error": to_json(OPERATION_LOST),
        }
        after = one_job(uow.execute(SQL["operation_missing"], parameters))
        if after is None:
            return None
        record(uow, EVENT_NAMES[Missing], after, _actor(node_id), {"count": after.op_missing, "seq": report.seq})
        return (Missing, after)

    def _confirm(self, uow: UnitOfWork, job_id: JobId, op_generation: int, incarnation: int, actor: str) -> Job | None:
        parameters = {
            "id": job_id,
            "op_generation": op_generation,
            "incarnation": incarnation,
            "report_window": self._windows.report_s,
        }
        job = one_job(uow.execute(SQL["confirm_stop"], parameters))
        if job is not None:
            uow.execute(SQL["free_replica"], {"id": job_id})
            record(uow, EVENT_NAMES[ConfirmStop], job, actor, {"incarnation": incarnation})
        return job

    @staticmethod
    def _change_replicas(uow: UnitOfWork, findings: Findings) -> bool:
        """Whether routing changed."""
        changed = False
        for replica in findings.retired:
            retired = uow.execute(SQL["retire_replica"], {"id": replica.id}).first()
            changed = changed or retired is not None
        for replica in findings.gone:
            deleted = uow.execute(SQL["delete_replica"], {"id": replica.id}).first()
            changed = changed or (deleted is not None and deleted.state == "loaded")
        if changed:
            uow.execute(SQL["raise_routing_version"])
        return changed

    @staticmethod
    def _rows(uow: UnitOfWork, node_id: NodeId, report: Report, statement: str) -> NodeRows:
        named = {operation.job_id for operation in report.operations} | {p.job_id for p in report.processes}
        parameters = {"node": node_id, "named": sorted(filter(is_uuid, named))}
        jobs = {job.id: job for job in jobs_of(uow.execute(SQL[statement], parameters))}
        replicas = uow.execute(SQL["replicas_on_node"], {"node": node_id})
        return NodeRows(
            jobs=jobs,
            replicas=tuple(_replica(row) for row in replicas.mappings()),
            cleanups={
                ProcessInstance(job.subject): job
                for job in jobs.values()
                if job.kind == REPLICA_CLEANUP and job.state in LIVE and job.node_id == node_id
            },
        )


def _replica(row: Mapping[Any, Any]) -> ReplicaRow:
    return ReplicaRow(
        id=ReplicaId(row["id"]),
        job_id=JobId(row["job_id"]),
        op_generation=row["op_generation"],
        process_instance=row["process_instance"] and ProcessInstance(row["process_instance"]),
        state=row["state"],
    )


def _actor(node_id: NodeId) -> str:
    return f"node:{node_id}"
