"""How a request waits a moment for what becomes of one job: woken by events, and the row decides."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from localai.bus.ports import Events, Payload
from localai.bus.subjects import job_progress, job_result
from localai.clock import boottime
from localai.ids import JobId
from localai.jobs.job import Job
from localai.jobs.ports import JobReads


class Signal(Protocol):
    """What a watch sleeps on: `threading.Event`, or one of a clock that is not the machine's."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float) -> bool: ...


class Watch:
    """One job. Begin to watch before doing what moves it, so that no event is missed; use it as a context manager."""

    def __init__(
        self,
        reads: JobReads,
        events: Events,
        job_id: JobId,
        *,
        clock: Callable[[], float] = boottime,
        signal: Callable[[], Signal] = threading.Event,
    ) -> None:
        self._reads, self._events, self._job_id, self._clock = reads, events, job_id, clock
        self._moved = signal()

    def __enter__(self) -> Watch:
        subjects = (job_progress(self._job_id), job_result(self._job_id))
        self._ends = [self._events.subscribe(subject, self._nudge) for subject in subjects]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for end in self._ends:
            end()

    def until(self, enough: Callable[[Job], bool], limit_s: float) -> Job | None:
        """The row once it is ``enough``, or as it is when the time is over; None where there is none.

        It is read when an event says so and once at the end, so that a bus that is away costs the wait and no more.
        Raises StorageUnavailable.
        """
        deadline = self._clock() + limit_s
        while True:
            job = self._reads.get(self._job_id)
            left = deadline - self._clock()
            if job is None or enough(job) or left <= 0:
                return job
            self._moved.wait(left)
            self._moved.clear()

    def _nudge(self, _: str, __: Payload) -> None:
        self._moved.set()
