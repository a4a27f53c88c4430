"""Steps of a ``replica.cleanup`` job: the stop of one process by its instance, sent until a report proves its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from localai import logs
from localai.clock import boottime
from localai.ids import JobId
from localai.jobs.event_rules import Progress
from localai.jobs.job import Job, Windows
from localai.jobs.operation_rules import Cause, StopRequest, process_key
from localai.jobs.owner import Owner
from localai.jobs.stops import StopService

log = logs.get(__name__)


class CleanupSteps:
    """`KindSteps` of a process to be stopped by instance.

    The agent's report is the other way: it is answered with the instance for as long as the job is live. Only a report
    without the process ends the job; the answer to a stop does not.
    """

    def __init__(
        self,
        owner: Owner,
        stops: StopService,
        windows: Windows,
        *,
        elsewhere: Callable[[Callable[[], None]], object],
        clock: Callable[[], float] = boottime,
    ) -> None:
        """``elsewhere`` runs what waits for a node on another thread and returns at once."""
        self._owner, self._stops, self._windows = owner, stops, windows
        self._elsewhere, self._clock = elsewhere, clock
        self._lock = threading.Lock()
        #: When each job's next stop may be sent, and how many were.
        self._next: dict[JobId, tuple[float, int]] = {}

    def due(self, job: Job) -> bool:
        with self._lock:
            return self._next.get(job.id, (0.0, 0))[0] <= self._clock()

    def step(self, job: Job) -> None:
        if job.node_id is None:
            self._forget(job)
            self._owner.fail(job, Cause.NO_NODE, "the node of this process was removed", ended=True)
            return
        with self._lock:
            self._forget_old()
            at, sent = self._next.get(job.id, (0.0, 0))
            if at > self._clock():
                return
            pause_s = min(2.0 ** min(sent, 16), self._windows.stop_retry_late_s)
            self._next[job.id] = (self._clock() + pause_s, sent + 1)
        self._elsewhere(lambda: self._stop(job))

    def _stop(self, job: Job) -> None:
        assert job.node_id is not None
        args = job.args
        request = StopRequest(
            job_id=str(args["job_id"]),
            op_generation=int(args["op_generation"]),
            process_key=process_key(str(args["model"]), int(args["slot"])),
            address=args.get("address"),
            process_instance=job.subject,
        )
        self._stops.send(job.node_id, request, refused=lambda text: self._say(job, text))

    def _say(self, job: Job, text: str) -> None:
        """The worker's own word stands in the row for whoever waits."""
        self._owner.progress(job, Progress(generation=job.generation, owner=self._owner.id, message=text))

    def _forget_old(self) -> None:
        """Let go of jobs that an agent's report has ended: their next stop was due long ago."""
        long_ago = self._clock() - self._windows.stop_retry_late_s
        self._next = {job_id: planned for job_id, planned in self._next.items() if planned[0] > long_ago}

    def _forget(self, job: Job) -> None:
        with self._lock:
            self._next.pop(job.id, None)
