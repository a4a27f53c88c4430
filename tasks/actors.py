"""Which actors a control process answers to."""

from __future__ import annotations

from collections.abc import Callable

import dramatiq
from dramatiq.broker import Broker

from localai.ids import JobId
from tasks import names
from tasks.queues import CONTROL_QUEUE


def register_control_actors(broker: Broker, step: Callable[[JobId, int], object]) -> None:
    """Have ``step(job_id, generation)`` called for every wake-up of a job.

    The step must be short and safe to run twice: messages come late, doubled and not at all. What it raises is logged,
    and the message is gone; the row decides when the job is looked at again.
    """

    @dramatiq.actor(broker=broker, actor_name=names.STEP_JOB, queue_name=CONTROL_QUEUE)
    def step_job(job_id: str, generation: int) -> None:
        step(JobId(job_id), generation)
