"""How a model's bytes get to this frontend: the steps of a ``model.install`` job.

The work blocks for as long as the bytes take, so it runs in a small pool of its own. The job's lease is renewed by the
keeper meanwhile; an owner that loses it stops its own work, and the next one begins again: fetching is idempotent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime

from localai import logs
from localai.clock import boottime
from localai.errors import LocalAIError, ModelsFolderUnavailable, OperationFailed, Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.announce import Announcer
from localai.jobs.disk_full import cause_of
from localai.jobs.event_rules import Progress, WakeControl
from localai.jobs.job import Job
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.operation_rules import Cause
from localai.jobs.owner import Owner
from localai.jobs.ports import JobReads
from localai.loads.budget_rules import Bound, Budgets, install_bound
from localai.loads.ports import InstallProgress, InstallsModels

log = logs.get(__name__)

Key = tuple[JobId, int]

#: The row is told about progress this often; people see no difference, and the database does.
PROGRESS_INTERVAL_S = 1.0


class InstallSteps:
    """`KindSteps` of ``model.install``."""

    def __init__(
        self,
        owner: Owner,
        reads: JobReads,
        models: InstallsModels,
        announcer: Announcer,
        *,
        pool: Executor,
        budgets: Budgets | None = None,
        clock: Callable[[], float] = boottime,
        trusts: Callable[[datetime], bool] = lambda _: True,
    ) -> None:
        """``trusts`` tells whether a reading of the database's clock may be compared with stored times."""
        self._trusts = trusts
        self._owner, self._reads, self._models, self._announcer = owner, reads, models, announcer
        self._pool, self._budgets, self._clock = pool, budgets or Budgets(), clock
        self._lock = threading.Condition()
        #: Work that was handed to the pool, and when a thread began it; None while it waits for one.
        self._running: dict[Key, float | None] = {}
        self._ending = threading.Event()

    def due(self, job: Job) -> bool:
        with self._lock:
            working = _key(job) in self._running
        return not working or self._overdue(job) is not None

    def step(self, job: Job) -> None:
        key = _key(job)
        if (over := self._overdue(job)) is not None:
            self._give_up(job, over)
            return
        with self._lock:
            if key in self._running:
                return
            self._running[key] = None
        try:
            self._pool.submit(self._work, job)
        except RuntimeError:
            # The process is shutting down; another owner takes the job when the lease is given back or has lapsed.
            self._done(job)

    def end(self, timeout_s: float) -> bool:
        """At the end of this process: begin no work, stop what is under way, and say whether it ended within the limit.

        To be called before the leases are given back, so that no other owner fetches the same bytes meanwhile. Where a
        thread does not end, two may fetch them: each puts its file together in a folder of its own and renames it.
        """
        self._ending.set()
        with self._lock:
            return self._lock.wait_for(lambda: all(begun_at is None for begun_at in self._running.values()), timeout_s)

    def _overdue(self, job: Job) -> Bound | None:
        limit = install_bound(job, self._budgets)
        if limit is None or job.read_at <= limit.at or not self._trusts(job.read_at):
            return None
        return None if limit.stalled and not self._had_its_turn(job) else limit

    def _had_its_turn(self, job: Job) -> bool:
        """What waits for a thread is not silent as long as the threads move something else."""
        with self._lock:
            begun_at = self._running.get(_key(job))
            if begun_at is None:
                return all(other is None for other in self._running.values())
            return self._clock() - begun_at > self._budgets.stall_s

    def _give_up(self, job: Job, over: Bound) -> None:
        """The work may be stuck in a read that nothing ends; it writes nothing any more, and its thread is lost."""
        cause = Cause.STAGING_STALLED if over.stalled else Cause.BUDGET_OVER
        self._done(job)
        self._owner.fail(job, cause, over.text, ended=True)
        self._wake_load(job)

    def _work(self, job: Job) -> None:
        with self._lock:
            if self._ending.is_set():
                return
            self._running[_key(job)] = self._clock()
        with logs.bound(job_id=job.id, generation=job.generation, model=job.subject):
            try:
                self._install(job)
            except (Replaced, StorageUnavailable) as error:
                log.warning("install not completed here: %s", error.message)
            except Exception:
                log.exception("install")
            finally:
                self._done(job)

    def _install(self, job: Job) -> None:
        telling = _Telling(self._owner, job, self._clock, self._ending)
        try:
            self._models.install(job.subject, telling.progress, telling.lost)
        except (Replaced, StorageUnavailable):
            raise
        except OperationFailed as error:
            if telling.lost():
                raise Replaced(job_id=job.id) from None
            self._owner.fail(job, error.cause, error.message, ended=True)
        except ModelsFolderUnavailable as error:
            self._owner.fail(job, Cause.MODELS_FOLDER_UNAVAILABLE, error.message, ended=True)
        except LocalAIError as error:
            self._owner.fail(job, Cause.BAD_CONFIG, error.message, ended=True)
        except Exception as error:
            log.exception("install")
            text = f"fetching failed inside the server: {error!r}"
            self._owner.fail(job, cause_of(error, Cause.INTERNAL), text, ended=True)
        else:
            self._owner.finish(job)
        self._wake_load(job)

    def _wake_load(self, job: Job) -> None:
        waiting = self._reads.live(MODEL_LOAD, job.subject)
        if waiting is not None:
            self._announcer.tell((WakeControl(waiting.id, waiting.generation),))

    def _done(self, job: Job) -> None:
        with self._lock:
            self._running.pop(_key(job), None)
            self._lock.notify_all()


def _key(job: Job) -> Key:
    return job.id, job.generation


class _Telling:
    """What a running install tells its row, and how it learns that it is not wanted any more."""

    def __init__(self, owner: Owner, job: Job, clock: Callable[[], float], ending: threading.Event) -> None:
        self._owner, self._job, self._clock, self._ending = owner, job, clock, ending
        self._told_at = clock() - PROGRESS_INTERVAL_S
        self._lost = False

    def lost(self) -> bool:
        """The job was cancelled, its lease is over, or this process ends: stop, and write nothing."""
        return self._lost or self._ending.is_set() or not self._owner.leases.valid(self._job.id, self._job.generation)

    def progress(self, step: InstallProgress) -> None:
        now = self._clock()
        if now - self._told_at < PROGRESS_INTERVAL_S:
            return
        self._told_at = now
        event = Progress(
            generation=self._job.generation,
            owner=self._owner.id,
            bytes_done=step.bytes_done,
            bytes_total=step.bytes_total,
            file_index=step.file_index,
            files_total=step.files_total,
            message=step.file,
        )
        try:
            self._owner.progress(self._job, event)
        except Replaced:
            self._lost = True
        except StorageUnavailable:
            log.debug("progress not told")
