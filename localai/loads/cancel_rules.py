"""What a cancel of one load attempt may do, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localai.jobs.cancel_rules import CancelState, release_s
from localai.jobs.job import DOOMED, Job, StopState


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCancel:
    """The answer to a cancel of one attempt of a model."""

    model: str
    job_id: str
    state: CancelState
    #: Whole seconds after which the model is released, whatever the worker says.
    retry_after: int | None = None
    #: The attempt that loads or holds the model instead of the named one.
    current_job_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The body: what does not apply is left out."""
        body = {
            "model": self.model,
            "job_id": self.job_id,
            "state": self.state.value,
            "retry_after": self.retry_after,
            "current_job_id": self.current_job_id,
        }
        return {name: value for name, value in body.items() if value is not None}


def has_work(named: Job | None, current: Job | None) -> bool:
    """Whether there is something to end: a live attempt, or a pending stop of one that no other has followed."""
    if named is None:
        return False
    followed = current is not None and current.id != named.id
    return named.live or (named.stop_state == StopState.PENDING and not followed)


def load_cancel(model: str, job_id: str, named: Job | None, current: Job | None) -> LoadCancel:
    """The answer, from the rows as they are once everything was done that may be.

    ``named`` is the attempt of this model with that id; ``current`` what keeps it from being ended: the live attempt,
    else the one that holds the model.
    """
    if current is not None and (named is None or current.id != named.id):
        return LoadCancel(model=model, job_id=job_id, state=CancelState.CONFLICT, current_job_id=current.id)
    if named is not None and named.stop_state == StopState.PENDING:
        return LoadCancel(model=model, job_id=job_id, state=CancelState.STOPPING, retry_after=release_s(named))
    # What succeeded serves; a worker that cannot confirm is given up after its window. Neither is proven to be over.
    proven = named is not None and named.state in DOOMED and named.stop_state == StopState.CONFIRMED
    return LoadCancel(model=model, job_id=job_id, state=CancelState.STOPPED if proven else CancelState.GONE)
