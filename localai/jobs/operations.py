"""What an agent is answered when it claims an operation or reports what it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from localai import logs
from localai.errors import LocalAIError, NotFound, Replaced, RevisionAbsent
from localai.ids import JobId, NodeId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.counts import count_fenced
from localai.jobs.event_rules import Claim, TellRouting
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.operation_rules import OperationAnswer, Order, ProcessReport, Report, ReportAnswer, needs_env
from localai.jobs.ports import JobIntake, JobReads, NewJob, OperationMoves
from localai.jobs.report_rules import answer
from localai.jobs.requests import request

log = logs.get(__name__)


#: Variables of a model process. They may be secrets: no row, event or log line has their values.
Env = Mapping[str, str]


class Jobs(JobReads, JobIntake, Protocol):
    """What the service reads and begins."""


class WorkerMustDrop(LocalAIError):
    """The claim is refused: the operation must not start, now or later."""

    def __init__(self, state: str) -> None:
        self.state = state
        super().__init__(f"the operation must not start: its job is {state}", state=state)


class OperationService:
    """The frontend's side of the agent's calls. Any web process may serve any of them."""

    def __init__(
        self, moves: OperationMoves, jobs: Jobs, announcer: Announcer, *, env_of: Callable[[str, str], Env | None]
    ) -> None:
        """``env_of`` says the ``env`` of a model's config of that revision; None: this frontend has no such config."""
        self._moves, self._jobs, self._announcer, self._env_of = moves, jobs, announcer, env_of

    def claim(
        self, node_id: NodeId, incarnation: int, job_id: JobId, op_generation: int, seq: int | None = None
    ) -> Order:
        """Grant an operation and say what it is. Idempotent for one incarnation.

        ``seq`` is the number of the agent's last report made before it entered the operation into its table; without
        it, the last one that changed a row. Raises WorkerMustDrop where the row does not grant (the agent keeps a
        tombstone), Replaced where the incarnation is not the node's, StorageUnavailable and RevisionAbsent (the agent
        asks again, the next frontend first).
        """
        if not is_uuid(job_id):
            raise WorkerMustDrop("unknown")
        env = self._env(job_id)
        result = self._moves.claim(node_id, incarnation, job_id, op_generation, seq)
        if not result.current_incarnation:
            raise Replaced("a newer life of this node's agent is registered", node_id=node_id)
        if not result.granted or result.job is None:
            count_fenced(Claim)
            raise WorkerMustDrop(result.job.state.value if result.job else "unknown")
        self._announcer.moved(Claim, result.job)
        order = Order.from_json(result.job.args["order"]).for_node(node_id)
        return replace(order, env={**order.env, **env})

    def gives(self, node_id: NodeId, path: str) -> bool:
        """Whether a running operation of this node stages the file."""
        return "\0" not in path and self._moves.stages(node_id, path)

    def _env(self, job_id: JobId) -> Env:
        """The variables that the row does not hold. Read before the grant: without them nothing may start."""
        job = self._jobs.get(job_id)
        if job is None or not needs_env(job.args):
            return {}
        found = self._env_of(job.subject, job.revision or "")
        if found is None:
            raise RevisionAbsent(job.subject)
        return found

    def report(self, node_id: NodeId, report: Report) -> ReportAnswer:
        """Apply a full report and answer each of its operations.

        Raises NotFound (no such node), Replaced (a newer incarnation is registered), StorageUnavailable: for the
        agent all but Replaced mean `wait`.
        """
        result = self._moves.report(node_id, report)
        if not result.node_known:
            raise NotFound(f"node {node_id} is not registered")
        if not result.current_incarnation:
            raise Replaced("a newer life of this node's agent is registered", node_id=node_id)
        for event, job in result.moved:
            self._announcer.moved(event, job)
        if result.routing_changed:
            self._announcer.tell((TellRouting(),))
        for process in result.findings.orphans:
            self._clean_up(node_id, process)
        return ReportAnswer(
            operations=tuple(
                OperationAnswer(
                    job_id=operation.job_id,
                    op_generation=operation.op_generation,
                    answer=answer(operation, node_id, report.incarnation, result.rows.get(JobId(operation.job_id))),
                )
                for operation in report.operations
            ),
            stop_processes=result.findings.stop_processes,
        )

    def _clean_up(self, node_id: NodeId, process: ProcessReport) -> None:
        if not is_uuid(process.process_instance):
            return
        log.warning(
            "process without a row: it will be stopped",
            extra=logs.fields(node_id=node_id, model=process.model, process_instance=process.process_instance),
        )
        args = {
            "model": process.model,
            "slot": process.slot,
            "address": process.address,
            "job_id": process.job_id,
            "op_generation": process.op_generation,
        }
        new = NewJob(kind=REPLICA_CLEANUP, subject=process.process_instance, node_id=node_id, args=args)
        request(self._jobs, self._announcer, new)
