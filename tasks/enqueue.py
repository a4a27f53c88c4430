"""How a committed row wakes whoever takes its next step: the queue port on Dramatiq."""

from __future__ import annotations

import logging
from collections.abc import Callable

import redis
from dramatiq.errors import BrokerError
from dramatiq.message import Message

from localai import crash_points
from localai.clock import boottime
from localai.ids import JobId, NodeId
from localai.logs import fields
from tasks import names
from tasks.broker import LocalBroker, ValkeyBroker
from tasks.queues import CONTROL_QUEUE, node_queue

log = logging.getLogger(__name__)

#: After a failed send nothing is tried for this long: a sweep that sends a hundred rows again waits for a dead broker
#: once and not a hundred times.
PAUSE_S = 1.0


class DramatiqWakeups:
    """Sends the messages of `localai.jobs.ports.Wakeups`. To be called after the commit.

    Never raises because of the broker, and takes about its socket timeout at most. A message that does not leave is
    counted in ``lost``; the dispatch window of its row sends it again.
    """

    def __init__(self, broker: ValkeyBroker | LocalBroker) -> None:
        self._broker = broker
        self._failing = False
        self._quiet_until = 0.0
        self.sent = 0
        self.lost = 0

    def wake_control(self, job_id: JobId, generation: int) -> None:
        """Have some control process take the job's next step."""
        self._send(CONTROL_QUEUE, names.STEP_JOB, job_id, generation)

    def send_order(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None:
        """Have the agent of this node claim the operation."""
        self._send(node_queue(node_id), names.RUN_OPERATION, job_id, op_generation)
        crash_points.reach("owner.order_sent")

    def forget_node(self, node_id: NodeId) -> None:
        """Delete the queue of a node that is gone for good; nothing else ever would."""
        self._try(lambda: self._broker.forget_queue(node_queue(node_id)))

    def _send(self, queue: str, actor: str, job_id: str, generation: int) -> None:
        # Built by hand: `send_with_options(queue_name=...)` leaves a message on the actor's own queue.
        message: Message[None] = Message(
            queue_name=queue, actor_name=actor, args=(job_id, generation), kwargs={}, options={}
        )
        if self._try(lambda: self._broker.enqueue(message)):
            self.sent += 1
        else:
            self.lost += 1

    def _try(self, command: Callable[[], object]) -> bool:
        if boottime() < self._quiet_until:
            return False
        try:
            command()
        except (redis.RedisError, BrokerError, OSError) as error:
            self._quiet_until = boottime() + PAUSE_S
            if not self._failing:
                self._failing = True
                log.warning("the queue takes no messages, rows are sent again when it does: %s", error)
            return False
        if self._failing:
            self._failing = False
            log.info("the queue takes messages again", extra=fields(lost=self.lost))
        return True
