"""What the owner of an unload does next: look what is left, say why, and end when nothing is.

It keeps no state but rows, and it stops nothing: the pass over drained replicas does, for unloads and edits alike.
"""

from __future__ import annotations

from localai import logs
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import FinishWork, Progress
from localai.jobs.job import Job
from localai.jobs.owner import Owner
from localai.unloads.rules import progress_text
from localai.unloads.store import PgUnloadStore

log = logs.get(__name__)


class UnloadSteps:
    """`KindSteps` of ``model.unload``."""

    def __init__(self, owner: Owner, store: PgUnloadStore, announcer: Announcer) -> None:
        self._owner, self._store, self._announcer = owner, store, announcer

    def due(self, job: Job) -> bool:
        """Every pass of the sweep: what is left changes without anybody telling this process."""
        return True

    def step(self, job: Job) -> None:
        left = self._store.left(job.id)
        if not left:
            self._finish(job)
            return
        text = progress_text(left)
        if text != job.message:
            self._owner.progress(job, Progress(generation=job.generation, owner=self._owner.id, message=text))

    def _finish(self, job: Job) -> None:
        if not self._owner.leases.valid(job.id, job.generation):
            self._owner.let_go(job)
            return
        finished = self._store.finish(job, self._owner.id)
        if finished is not None:  # else the next step sees what was added meanwhile, or that the row is not ours
            self._owner.leases.done(job.id)
            log.info("unloaded", extra=logs.fields(model=job.subject))
            self._announcer.moved(FinishWork, finished)
