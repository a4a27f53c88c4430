"""Exact stops of doomed work, sent to their node over the bus.

The sender has read a committed doomed row, so a stop may be late, doubled and sent by any process, and is still right.
The answer is logged and proves nothing: any process with access to the bus can send one. The proof is the next report
of the agent, which carries the credential of the node, or a registration of a newer incarnation.
"""

from __future__ import annotations

from collections.abc import Callable

from localai import crash_points, logs
from localai.bus.ports import NodeLink
from localai.bus.subjects import MODEL_STOP
from localai.errors import LocalAIError, NodeQuiet, NodeUnreachable, NoRoute, WorkerRefused
from localai.ids import NodeId
from localai.jobs.job import Job, StopState
from localai.jobs.operation_rules import StopAnswer, StopRequest, process_key

log = logs.get(__name__)


def exact_stop(job: Job) -> StopRequest | None:
    """What is sent for a pending stop; None where nothing may be.

    A legacy node takes a stop by exact address only, never by the name of the model.
    """
    if job.stop_state != StopState.PENDING or job.op_generation is None:
        return None
    if job.legacy:
        by_address = StopRequest(job_id=job.id, op_generation=job.op_generation, address=job.address)
        return by_address if job.address is not None else None
    return StopRequest(
        job_id=job.id,
        op_generation=job.op_generation,
        process_key=process_key(job.subject, job.slot),
        address=job.address,
        process_instance=job.process_instance,
    )


class StopService:
    """Sends stops by the node link. The agent reports as soon as it has stopped what a stop names."""

    def __init__(self, link: NodeLink, *, timeout_s: float) -> None:
        """``timeout_s`` covers the grace between TERM and KILL: the answer comes when the group has ended."""
        self._link, self._timeout_s = link, timeout_s

    def stop_operation(self, job: Job) -> None:
        """Send the stop of a doomed job once. Blocks up to the limit."""
        request = exact_stop(job)
        if request is not None and job.node_id is not None:
            self.send(job.node_id, request)

    def send(self, node_id: NodeId, request: StopRequest, *, refused: Callable[[str], object] = lambda _: None) -> None:
        """Send one exact stop and log its answer. Blocks up to the limit.

        ``refused`` gets the text of a worker that could not stop what was named.
        """
        facts = {"node_id": node_id, "job_id": request.job_id, "op_generation": request.op_generation}
        crash_points.reach("owner.stopping")
        try:
            body = self._link.request(node_id, MODEL_STOP, request.to_json(), self._timeout_s)
            answer = StopAnswer.from_json(body)
        except (NoRoute, NodeQuiet, NodeUnreachable, WorkerRefused) as error:
            log.info("stop not answered", extra=logs.fields(**facts, reason=type(error).__name__))
            if isinstance(error, WorkerRefused):
                refused(error.message)
            return
        except (LocalAIError, KeyError, TypeError, ValueError) as error:
            log.warning("stop answered in words we do not know", extra=logs.fields(**facts, reason=error))
            return
        crash_points.reach("owner.stop_answered")
        log.info("stop answered", extra=logs.fields(**facts, outcome=answer.outcome.value))
