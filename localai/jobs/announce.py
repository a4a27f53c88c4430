"""Who is told that a job moved, after the commit. All of it are hints: rows and sweep do not need them."""

from __future__ import annotations

from collections.abc import Iterable

from localai.bus.ports import Events
from localai.bus.subjects import ROUTING_CHANGED, job_progress, job_result
from localai.ids import NodeId
from localai.jobs.counts import count_move
from localai.jobs.event_rules import (
    Command,
    Event,
    SendOrder,
    SendStop,
    TellProgress,
    TellResult,
    TellRouting,
    WakeControl,
)
from localai.jobs.job import Job
from localai.jobs.ports import Wakeups
from localai.jobs.rules import commands


class Announcer:
    """Carries out the commands of `localai.jobs.rules` on the queue and the bus. Never raises because of either."""

    def __init__(self, wakeups: Wakeups, events: Events) -> None:
        self._wakeups, self._events = wakeups, events

    def moved(self, event: type[Event], job: Job) -> None:
        """Count a move that a store accepted, and tell what follows from it; ``job`` is the row after it."""
        count_move(event, job)
        self.tell(commands(event, job))

    def forget_node(self, node_id: NodeId) -> None:
        """Delete the queue of a node that was removed."""
        self._wakeups.forget_node(node_id)

    def tell(self, wanted: Iterable[Command]) -> None:
        for command in wanted:
            match command:
                case WakeControl(job_id, generation) | SendStop(job_id, generation):
                    self._wakeups.wake_control(job_id, generation)
                case SendOrder(node_id, job_id, op_generation):
                    self._wakeups.send_order(node_id, job_id, op_generation)
                case TellProgress(job_id):
                    self._events.publish(job_progress(job_id), {"job_id": job_id})
                case TellResult(job_id, state):
                    self._events.publish(job_result(job_id), {"job_id": job_id, "state": state.value})
                case TellRouting():
                    self._events.publish(ROUTING_CHANGED, {})
