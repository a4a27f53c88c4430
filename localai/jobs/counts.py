"""What is counted when a job has moved. Called after the commit, once for each accepted move."""

from __future__ import annotations

from localai import metrics
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Event,
    Fail,
    Finish,
    FinishWork,
    Lapse,
    NewIncarnation,
    Place,
    Requeue,
    WorkGone,
)
from localai.jobs.job import Job
from localai.jobs.kinds import MODEL_LOAD

_ENDS: tuple[type[Event], ...] = (Finish, FinishWork, WorkGone, Fail, Lapse, NewIncarnation, Cancel)


def count_move(event: type[Event], job: Job) -> None:
    """``job`` is the row after the move."""
    if event is Adopt:
        metrics.LEASE_LOSSES.labels(job.kind, "adopted").inc()
    elif event is Lapse:
        metrics.LEASE_LOSSES.labels(job.kind, "failed").inc()
    elif event is Requeue:
        metrics.LEASE_LOSSES.labels(job.kind, "requeued").inc()
    elif event is Place and job.kind == MODEL_LOAD:
        waited = (job.read_at - job.created_at).total_seconds()
        metrics.LOAD_PHASE_SECONDS.labels(job.subject, "pending", "ok").observe(waited)
    if event in _ENDS and not job.live:
        _count_end(job)


def count_fenced(move: type[Event]) -> None:
    """A write touched no row."""
    metrics.FENCED_WRITES.labels(move.__name__.lower()).inc()


def _count_end(job: Job) -> None:
    metrics.JOBS_ENDED.labels(job.kind, job.phase, job.state).inc()
    if job.kind == MODEL_LOAD:
        taken = (job.read_at - job.created_at).total_seconds()
        metrics.LOAD_SECONDS.labels(job.subject, job.state).observe(taken)
