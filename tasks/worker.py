"""How a process works on its queues, and whether it still does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dramatiq.worker import Worker

from localai.clock import boottime
from tasks.broker import LocalBroker, ValkeyBroker

#: How long an idle thread waits before it looks whether it should end. A message wakes it at once.
IDLE_MS = 250
#: A consumer that asked nothing for this long does not move: a broken connection is tried again every few seconds.
STUCK_AFTER_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHealth:
    """What can be seen of a worker from outside its threads."""

    threads_wanted: int
    threads_alive: int
    consumers_wanted: int
    consumers_alive: int
    #: Seconds since the queue that waited longest was asked for messages; since the start where it never was.
    last_poll_age_s: float
    #: Messages fetched, running ones included, that are not done.
    unfinished: int

    @property
    def problem(self) -> str | None:
        """Why no work is being taken, or None."""
        if self.threads_alive < self.threads_wanted:
            return f"{self.threads_wanted - self.threads_alive} of {self.threads_wanted} worker threads have ended"
        if self.consumers_alive < self.consumers_wanted:
            return f"{self.consumers_wanted - self.consumers_alive} of {self.consumers_wanted} consumers have ended"
        if self.last_poll_age_s > STUCK_AFTER_S:
            return f"no queue was asked for {self.last_poll_age_s:.0f} s: the broker does not answer"
        return None


class RunningWorker:
    """One embedded Dramatiq worker. A process has one: its threads serve all its queues."""

    def __init__(self, broker: ValkeyBroker | LocalBroker, queues: Collection[str], threads: int) -> None:
        self._broker = broker
        self._queues = tuple(queues)
        self._started_at = boottime()
        self._worker = Worker(broker, queues=set(queues), worker_timeout=IDLE_MS, worker_threads=threads)
        # As many as there are threads, running ones included: with twice that, the library's default, messages wait in
        # the memory of a busy process where nobody else sees them; with one, the process works on one at a time.
        self._worker.queue_prefetch = threads
        self._worker.start()

    def health(self) -> WorkerHealth:
        """What can be seen at this moment, without asking the broker."""
        worker, now = self._worker, boottime()
        asked = [self._broker.polls.get(queue, self._started_at) for queue in self._queues]
        return WorkerHealth(
            threads_wanted=worker.worker_threads,
            threads_alive=sum(thread.is_alive() for thread in worker.workers),
            consumers_wanted=len(self._queues),
            consumers_alive=sum(
                queue in worker.consumers and worker.consumers[queue].is_alive() for queue in self._queues
            ),
            last_poll_age_s=now - min(asked, default=now),
            unfinished=worker.work_queue.unfinished_tasks,
        )

    def read_at(self) -> float | None:
        """When the queue that waited longest was last asked for messages with success; None if one never was."""
        asked = [self._broker.polls.get(queue) for queue in self._queues]
        return min((moment for moment in asked if moment is not None), default=None) if None not in asked else None

    def stop(self, timeout_s: float) -> None:
        """Let running messages end and give back fetched ones, for at most about twice this long."""
        self._worker.stop(timeout=int(timeout_s * 1000))


def start_worker(broker: ValkeyBroker | LocalBroker, queues: Collection[str], threads: int) -> RunningWorker:
    """Work on these queues with so many threads, from now on. Register the actors before."""
    for queue in queues:
        broker.declare_queue(queue)
    return RunningWorker(broker, queues, threads)
