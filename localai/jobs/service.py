"""What people and other subsystems ask of jobs: show them, follow them, begin them."""

from __future__ import annotations

from collections.abc import Sequence

from localai.ids import JobId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.ports import Intake, JobFilter, JobIntake, JobReads, NewJob
from localai.jobs.requests import request
from localai.jobs.views import JobEvent, JobView, event_view, view


class JobService:
    """Jobs of all kinds. Every method raises StorageUnavailable."""

    def __init__(self, reads: JobReads, intake: JobIntake, announcer: Announcer) -> None:
        self._reads, self._intake, self._announcer = reads, intake, announcer

    def list(self, wanted: JobFilter | None = None) -> Sequence[JobView]:
        """Newest first."""
        return [view(job) for job in self._reads.list(wanted or JobFilter())]

    def get(self, job_id: str) -> JobView | None:
        job = self._reads.get(JobId(job_id)) if is_uuid(job_id) else None
        return None if job is None else view(job)

    def events(self, job_id: str, after: int = 0) -> Sequence[JobEvent]:
        """Accepted moves with an id above ``after``, oldest first."""
        return [event_view(row) for row in self._reads.events(JobId(job_id), after)] if is_uuid(job_id) else []

    def children(self, job_id: str) -> Sequence[JobView]:
        return self.list(JobFilter(parent_id=JobId(job_id), limit=500)) if is_uuid(job_id) else []

    def request(self, new: NewJob) -> tuple[Intake, JobView]:
        """Attach to the live attempt, obey the hold of a failed one, or create."""
        outcome, job = request(self._intake, self._announcer, new)
        return outcome, view(job)
