"""What a person asks for: take a model off every node, and cut no request."""

from __future__ import annotations

from dataclasses import dataclass

from localai import logs
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import Cancel, TellRouting, WakeControl
from localai.unloads.store import Begun, PgUnloadStore

log = logs.get(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unload:
    """What was begun. ``job_id`` is None where no replica was there: then nothing is left to wait for."""

    job_id: str | None
    cancelled_loads: int
    message: str


class UnloadService:
    """Answers at once; control does the rest."""

    def __init__(self, store: PgUnloadStore, announcer: Announcer) -> None:
        self._store, self._announcer = store, announcer

    def request(self, model: str, actor: str = "api") -> Unload:
        """Begin to unload a model everywhere; nothing to do is no error. Raises StorageUnavailable."""
        begun = self._store.begin(model, actor)
        for job in begun.cancelled:
            self._announcer.moved(Cancel, job)
        if begun.marked:
            self._announcer.tell((TellRouting(),))
        if begun.job is not None and begun.created:
            self._announcer.tell((WakeControl(begun.job.id, begun.job.generation),))
        cancelled = [job.id for job in begun.cancelled]
        log.info("unload asked for", extra=logs.fields(model=model, replicas=begun.marked, cancelled=cancelled))
        return Unload(
            job_id=begun.job.id if begun.job is not None else None,
            cancelled_loads=len(begun.cancelled),
            message=_message(model, begun),
        )


def _message(model: str, begun: Begun) -> str:
    if begun.cancelled and not begun.marked:
        return f"the load of model {model} was cancelled"
    if begun.job is not None:
        return f"model {model} is being unloaded"
    return f"model {model} is not loaded"
