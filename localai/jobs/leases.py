"""Which jobs this process may still act for, by its own clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass

from localai.clock import boottime
from localai.ids import JobId


@dataclass(slots=True)
class _Lease:
    generation: int
    ends: float


class LeaseBook:
    """Local leases: each runs from *before* the last renewal that succeeded was sent.

    So it is over before the database says so, and a process that was frozen finds out before it acts. A job that was
    dropped is never held again under the same generation.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float] = boottime) -> None:
        self._lease_s, self._clock = lease_s, clock
        self._lock = threading.Lock()
        self._leases: dict[JobId, _Lease] = {}
        self._dropped: dict[tuple[JobId, int], float] = {}

    def now(self) -> float:
        """The reading to take before a take or a renewal is sent."""
        return self._clock()

    def hold(self, job_id: JobId, generation: int, sent_at: float) -> bool:
        """Begin or prolong a lease; False where this generation was dropped before."""
        with self._lock:
            if (job_id, generation) in self._dropped:
                return False
            self._leases[job_id] = _Lease(generation, sent_at + self._lease_s)
            return True

    def valid(self, job_id: JobId, generation: int) -> bool:
        """Whether this process may send a statement for the job now."""
        with self._lock:
            lease = self._leases.get(job_id)
            return lease is not None and lease.generation == generation and lease.ends > self._clock()

    def generation_of(self, job_id: JobId) -> int | None:
        """Under which generation the job is held here; None where it is not."""
        with self._lock:
            lease = self._leases.get(job_id)
            return None if lease is None else lease.generation

    def knows(self, job_id: JobId, generation: int) -> bool:
        """Whether the job is held, or was dropped."""
        with self._lock:
            lease = self._leases.get(job_id)
            return (lease is not None and lease.generation == generation) or (job_id, generation) in self._dropped

    def held(self) -> list[tuple[JobId, int]]:
        """Every lease that is not over, to renew; those that are over are dropped."""
        with self._lock:
            now = self._clock()
            for job_id in [job_id for job_id, lease in self._leases.items() if lease.ends <= now]:
                self._drop(job_id)
            return [(job_id, lease.generation) for job_id, lease in self._leases.items()]

    def renewed(self, asked: Collection[tuple[JobId, int]], kept: Collection[JobId], sent_at: float) -> None:
        """Prolong what a renewal sent at ``sent_at`` has renewed."""
        with self._lock:
            for job_id, generation in asked:
                lease = self._leases.get(job_id)
                if job_id in kept and lease is not None and lease.generation == generation:
                    lease.ends = sent_at + self._lease_s

    def drop(self, job_id: JobId, generation: int) -> None:
        """Stop supervising the job: it was replaced, or its lease is over. Nothing is sent.

        What this process holds under another generation, because it adopted the job itself, stays.
        """
        with self._lock:
            lease = self._leases.get(job_id)
            if lease is not None and lease.generation == generation:
                self._drop(job_id)

    def done(self, job_id: JobId) -> None:
        """The job has ended by our own hand."""
        with self._lock:
            self._leases.pop(job_id, None)

    def _drop(self, job_id: JobId) -> None:
        lease = self._leases.pop(job_id, None)
        if lease is None:
            return
        now = self._clock()
        self._dropped = {key: since for key, since in self._dropped.items() if since > now - 10 * self._lease_s}
        self._dropped[(job_id, lease.generation)] = now
