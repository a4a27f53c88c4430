"""How a control process takes the next step of a job, whichever hint told it to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from localai import logs
from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.disk_full import cause_of
from localai.jobs.job import Job, State, StopState
from localai.jobs.operation_rules import Cause
from localai.jobs.owner import Owner
from localai.jobs.ports import JobReads

log = logs.get(__name__)


class KindSteps(Protocol):
    """What the owner of a job of one kind does next."""

    def due(self, job: Job) -> bool:
        """Whether a running job of ours has something to do now. Reads the value only."""

    def step(self, job: Job) -> None:
        """Take what steps there are, and return. Never blocks for as long as the work lasts.

        The job is running and ours. May raise Replaced and StorageUnavailable: the next hint or the sweep tries again.
        """


class JobStepper:
    """Safe to call from any thread, for any job, any number of times: rows decide, not calls."""

    def __init__(
        self,
        reads: JobReads,
        owner: Owner,
        steps: Mapping[str, KindSteps],
        *,
        stop: Callable[[Job], object],
    ) -> None:
        """``stop`` sends the exact stop of a doomed job elsewhere, and returns at once."""
        self._reads, self._owner, self._steps, self._stop = reads, owner, steps, stop
        self._lock = threading.Lock()
        #: Jobs under way in this process, and whether another step was asked for meanwhile.
        self._busy: dict[JobId, bool] = {}

    def step(self, job_id: JobId, generation: int) -> None:
        """Take the next step of a job. A hint of another generation is late, and does nothing."""
        if not self._enter(job_id):
            return
        try:
            while True:
                self._step(job_id, generation)
                if not self._again(job_id):
                    return
        except BaseException:
            with self._lock:
                self._busy.pop(job_id, None)
            raise

    def due(self, job: Job) -> bool:
        """Whether a running job of this owner has something to do now; one that we did not know is renewed first."""
        steps = self._steps.get(job.kind)
        return steps is not None and (not self._owner.knows(job) or steps.due(job))

    def _step(self, job_id: JobId, generation: int) -> None:
        with logs.bound(job_id=job_id, generation=generation):
            try:
                job = self._reads.get(job_id)
                if job is not None and job.generation == generation:
                    self._advance(job)
            except Replaced:
                log.info("another owner or attempt has taken this over")
            except StorageUnavailable as error:
                log.warning("step not taken: %s", error.message)

    def _advance(self, job: Job) -> None:
        if job.stop_state == StopState.PENDING:
            self._stop(job)
        elif job.live and job.kind in self._steps:
            mine = self._owner.take(job) if job.state == State.QUEUED else job
            if mine is not None and self._owner.holds(mine):
                self._run(mine)

    def _run(self, job: Job) -> None:
        try:
            self._steps[job.kind].step(job)
        except (Replaced, StorageUnavailable):
            raise
        except Exception as error:
            # A fault of ours would come back with every step: the job ends visibly instead of being tried for ever.
            log.exception("a step failed")
            text = f"a step of this job failed inside the server: {type(error).__name__}"
            self._owner.fail(job, cause_of(error, Cause.INTERNAL), text, ended=False)

    def _enter(self, job_id: JobId) -> bool:
        with self._lock:
            if job_id in self._busy:
                self._busy[job_id] = True
                return False
            self._busy[job_id] = False
            return True

    def _again(self, job_id: JobId) -> bool:
        with self._lock:
            if self._busy[job_id]:
                self._busy[job_id] = False
                return True
            del self._busy[job_id]
            return False
