"""Who looks at all rows again and again: one thread, which never waits for a step, a node or a queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor

from localai import logs
from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.job import Job
from localai.jobs.sweeping import Sweep

log = logs.get(__name__)


class Signals:
    """Named points of the sweep; they do nothing in production, and a test may wait at them."""

    def swept(self) -> None:
        """One pass is over."""


class SweepThread:
    """Runs a pass every interval. It is a thread and not a message, because it is what heals a broken queue."""

    def __init__(self, sweep: Sweep, interval_s: float, signals: Signals | None = None) -> None:
        self._sweep, self._interval_s, self._signals = sweep, interval_s, signals or Signals()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the thread after its pass."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self._sweep.run_once()
            self._signals.swept()


class Later:
    """Runs steps and stops on a small pool, each job at most once at a time."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._waiting: set[tuple[str, JobId]] = set()

    def step(self, step: Callable[[JobId, int], object]) -> Callable[[JobId, int], None]:
        """A function that takes the step elsewhere."""
        return lambda job_id, generation: self._submit("step", job_id, lambda: step(job_id, generation))

    def stop(self, stop: Callable[[Job], object]) -> Callable[[Job], None]:
        """A function that sends the stop elsewhere."""
        return lambda job: self._submit("stop", job.id, lambda: stop(job))

    def run(self, work: Callable[[], object]) -> None:
        """Run anything elsewhere; what it raises is logged."""
        try:
            self._pool.submit(_logged, work)
        except RuntimeError:
            log.debug("not started: the process is shutting down")

    def _submit(self, what: str, job_id: JobId, work: Callable[[], object]) -> None:
        key = (what, job_id)
        with self._lock:
            if key in self._waiting:
                return
            self._waiting.add(key)
        try:
            self._pool.submit(self._once, key, work)
        except RuntimeError:
            with self._lock:
                self._waiting.discard(key)

    def _once(self, key: tuple[str, JobId], work: Callable[[], object]) -> None:
        try:
            _logged(work)
        finally:
            with self._lock:
                self._waiting.discard(key)


def _logged(work: Callable[[], object]) -> None:
    try:
        work()
    except Replaced:  # the report of an agent often is first to say that a process is gone
        log.info("work beside the sweep: somebody else has done it")
    except StorageUnavailable as error:
        log.warning("work beside the sweep: %s", error.message)
    except Exception:
        log.exception("work beside the sweep")
