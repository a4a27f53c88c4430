"""How orders come from this node's queue: one actor, an embedded Dramatiq worker, and a watch on its consumer.

A message is a wake-up. The actor hands it over and returns at once; what it means is asked of the row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import dramatiq

from localai import logs
from localai.clock import boottime
from tasks import names
from tasks.broker import LocalBroker, ValkeyBroker, make_broker
from tasks.queues import node_queue
from tasks.worker import RunningWorker, start_worker

log = logs.get(__name__)

THREADS = 8
#: How long the threads of a worker may take to end. One inside a call to a frozen broker ends by its own limit.
STOP_BOUND_S = 2.0
#: The agent is not ready if its queue was not read for this long: more than one lost connection, less than a rebuild.
UNREAD_AFTER_S = 10.0

Run = Callable[[str, int], None]
AnyBroker = ValkeyBroker | LocalBroker


class OrderQueue:
    """The consumer of one node's queue. Rebuilt when it does not move."""

    def __init__(
        self,
        *,
        node_id: str,
        broker_url: str,
        run: Run,
        brokers: Callable[[str], AnyBroker] = make_broker,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._queue = node_queue(node_id)
        self._broker_url = broker_url
        self._run = run
        self._brokers, self._clock = brokers, clock
        #: When the queue was last read by a consumer that is gone. A consumer that was rebuilt has shown nothing yet.
        self._read_at: float | None = None
        self._worker: RunningWorker | None = None
        self._lock = threading.Lock()
        self._started = self._closed = False

    def start(self) -> None:
        """Begin to consume. A broker that is down is tried again by the library."""
        with self._lock:
            self._started = True
            if not self._closed:
                broker = self._brokers(self._broker_url)
                register = dramatiq.actor(broker=broker, actor_name=names.RUN_OPERATION, queue_name=self._queue)
                register(self._take)
                self._worker = start_worker(broker, [self._queue], THREADS)

    def problem(self) -> str | None:
        """Why no order is being taken, or None. A rebuilt consumer changes nothing until it has read the queue."""
        worker = self._worker
        if worker is None:
            return "the task queue is not read yet"
        return worker.health().problem or self._unread(worker)

    def check(self) -> None:
        """Rebuild broker and worker if the consumer does not move, or could not be built. Called on a timer."""
        with self._lock:  # a start under way ends first
            worker = self._worker
            if self._closed or not self._started:
                return
        problem = worker.health().problem if worker is not None else "the consumer could not be built"
        if problem is None:
            return
        log.warning("orders are not taken, rebuilding the consumer", extra=logs.fields(problem=problem))
        self._stop_worker()
        self.start()

    def close(self) -> None:
        """Consume nothing more. Bounded; messages in hand go back to the queue, or are sent again by the sweep."""
        with self._lock:
            self._closed = True
        self._stop_worker()

    def _unread(self, worker: RunningWorker) -> str | None:
        read_at = worker.read_at() or self._read_at
        if read_at is None:
            return "the task queue was never read: the broker of LOCALAI_BROKER_URL does not answer"
        unread_s = self._clock() - read_at
        if unread_s <= UNREAD_AFTER_S:
            return None
        return f"the task queue was not read for {unread_s:.0f} s: the broker of LOCALAI_BROKER_URL does not answer"

    def _take(self, job_id: str, op_generation: int) -> None:
        if not self._closed:
            self._run(job_id, op_generation)

    def _stop_worker(self) -> None:
        with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None:
                self._read_at = worker.read_at() or self._read_at
        if worker is not None:
            # On a thread of its own: a consumer inside a call to a frozen broker cannot be interrupted.
            stopper = threading.Thread(target=worker.stop, args=(STOP_BOUND_S,), name="queue-stop", daemon=True)
            stopper.start()
            stopper.join(STOP_BOUND_S)
