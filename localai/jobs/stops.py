"""How the exact stop of doomed work reaches its node, and what its answer proves.

Whoever sends a stop has read a committed doomed row; nobody stops remote work for what he believes. So a stop may be
late, doubled and sent by anyone, and is still right.
"""

from __future__ import annotations

from collections.abc import Callable

from localai import crash_points, logs
from localai.bus.ports import NodeLink
from localai.bus.subjects import MODEL_STOP
from localai.errors import LocalAIError, NodeQuiet, NodeUnreachable, NoRoute, WorkerRefused
from localai.ids import NodeId
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import ConfirmStop
from localai.jobs.job import Job, StopState
from localai.jobs.operation_rules import StopAnswer, StopOutcome, StopRequest, process_key
from localai.jobs.ports import OperationMoves

log = logs.get(__name__)

#: After one of these nothing of what the stop named runs any more.
PROOF = frozenset({StopOutcome.TERMINATED, StopOutcome.ALREADY_GONE})


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
    """Sends stops by the node link. The agent's own report is the second way; a row needs only one of them."""

    def __init__(self, link: NodeLink, moves: OperationMoves, announcer: Announcer, *, timeout_s: float) -> None:
        """``timeout_s`` covers the grace between TERM and KILL: the answer comes when the group has ended."""
        self._link, self._moves, self._announcer, self._timeout_s = link, moves, announcer, timeout_s

    def stop_operation(self, job: Job) -> None:
        """Send the stop of a doomed job once, and confirm it if the answer is proof. Blocks up to the limit."""
        request = exact_stop(job)
        if request is None or job.node_id is None:
            return
        answer = self.ask(job.node_id, request)
        if answer is None or answer.outcome not in PROOF:
            return
        actor = f"node:{job.node_id}"
        confirmed = self._moves.confirm_stop(job.id, request.op_generation, answer.incarnation, actor)
        if confirmed is not None:
            self._announcer.moved(ConfirmStop, confirmed)

    def ask(
        self, node_id: NodeId, request: StopRequest, *, refused: Callable[[str], object] = lambda _: None
    ) -> StopAnswer | None:
        """The node's answer to one exact stop. None: nothing is proven, and it is sent again.

        ``refused`` gets the worker's own words where it says that it could not stop what was named.
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
            return None
        except (LocalAIError, KeyError, TypeError, ValueError) as error:
            log.warning("stop answered in words we do not know", extra=logs.fields(**facts, reason=error))
            return None
        crash_points.reach("owner.stop_answered")
        log.info("stop answered", extra=logs.fields(**facts, outcome=answer.outcome.value))
        return answer
