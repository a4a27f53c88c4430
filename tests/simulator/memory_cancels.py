"""`CancelMoves` on rows in memory."""

from __future__ import annotations

from collections.abc import Sequence

from localai.ids import JobId
from localai.jobs.cancel_store import UNLOAD_CANCELLED
from localai.jobs.copies import changed
from localai.jobs.event_rules import Cancel
from localai.jobs.job import Job
from localai.jobs.kinds import KINDS, MODEL_UNLOAD, Kinds
from tests.simulator.tables import Tables


class MemoryCancels:
    """Cancels of jobs of all kinds."""

    def __init__(self, tables: Tables, kinds: Kinds = KINDS) -> None:
        self._tables, self._kinds = tables, kinds

    def cancel(self, job_id: JobId, actor: str) -> Sequence[Job]:
        job = self._tables.jobs.get(job_id)
        if job is None or not self.may_end(job):
            return []
        why = UNLOAD_CANCELLED if job.kind == MODEL_UNLOAD else None
        ended = [self._end(other, actor, why) for other in [*self.servants(job), job]]
        return [other for other in ended if other is not None]

    def _end(self, job: Job, actor: str, why: str | None) -> Job | None:
        ended = self._tables.end(job.id, Cancel(), actor)
        if ended is None or why is None:
            return ended
        return self._tables.put(changed(ended, error=why, hold_until=None))

    def may_end(self, job: Job) -> bool:
        return job.live

    def servants(self, job: Job) -> list[Job]:
        """The live jobs that only serve it: none while another job of its kind is live about its subject."""
        about = [other for other in self._tables.opened() if other.live and other.subject == job.subject]
        if any(other.kind == job.kind and other.id != job.id for other in about):
            return []
        return sorted((other for other in about if self._serves(other) == job.kind), key=lambda other: other.id)

    def _serves(self, job: Job) -> str | None:
        kind = self._kinds.get(job.kind)
        return None if kind is None else kind.serves
