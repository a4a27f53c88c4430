"""What `load-cancel` does: end exactly the attempt that a person names, and say what became of it."""

from __future__ import annotations

from localai.errors import ModelNotFound
from localai.ids import JobId
from localai.jobs.cancels import CancelService
from localai.jobs.job import Job
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.ports import JobFilter, JobReads
from localai.loads.cancel_rules import LoadCancel, has_work, load_cancel
from localai.loads.ports import LoadReads


class LoadCancels:
    """Cancels of attempts by model and id. Raises StorageUnavailable."""

    def __init__(self, loads: LoadReads, reads: JobReads, cancels: CancelService) -> None:
        self._loads, self._reads, self._cancels = loads, reads, cancels

    def cancel(self, model: str, job_id: JobId, *, configured: bool, actor: str = "api") -> LoadCancel:
        """End the named attempt of a model; a repeat sends its pending stop again and never extends the hold.

        An attempt that succeeded first is left alone: the model serves, and an unload takes it away. Raises
        ModelNotFound for a model that has neither a config nor a job.
        """
        named, current = self._attempt(model, job_id), self._current(model)
        if has_work(named, current):
            self._cancels.end(job_id, actor)
            named, current = self._attempt(model, job_id), None
        if named is None and current is None and not configured and not self._ever_loaded(model):
            raise ModelNotFound(model)
        return load_cancel(model, job_id, named, current)

    def _attempt(self, model: str, job_id: JobId) -> Job | None:
        job = self._reads.get(job_id)
        return job if job is not None and (job.kind, job.subject) == (MODEL_LOAD, model) else None

    def _current(self, model: str) -> Job | None:
        row = self._loads.current(model)
        return None if row is None else row.job

    def _ever_loaded(self, model: str) -> bool:
        return bool(self._reads.list(JobFilter(kind=MODEL_LOAD, subject=model, limit=1)))
