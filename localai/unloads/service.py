"""Requests of people to unload a model on one node or on all, and not to wait for its running requests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localai import logs
from localai.bus.ports import Events
from localai.errors import JobEnded, NotForced, NotFound, WorkerRefused
from localai.ids import JobId, NodeId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import Cancel, TellRouting, WakeControl
from localai.jobs.job import Job
from localai.jobs.kinds import MODEL_LOAD
from localai.jobs.ports import JobReads
from localai.jobs.watches import Watch
from localai.unloads.rules import Left, progress_text, refusal
from localai.unloads.store import FORCED_KINDS, Begun, PgUnloadStore
from localai.unloads.taking import Taken

log = logs.get(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unload:
    """What was begun. ``job_id`` is None where no replica was there: then nothing is left to wait for."""

    job_id: str | None
    cancelled_loads: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUnload:
    """What became of an unload on one node within the wait."""

    job_id: str | None
    #: Whether nothing of the model is there any more.
    done: bool
    message: str


class UnloadService:
    """The rows are marked at once; control does the rest. Every method raises StorageUnavailable."""

    def __init__(
        self, store: PgUnloadStore, announcer: Announcer, reads: JobReads, events: Events, *, wait_s: float = 0.0
    ) -> None:
        """``wait_s``: how long an unload on one node waits for its stop to be acknowledged."""
        self._store, self._announcer, self._reads, self._events = store, announcer, reads, events
        self._wait_s = wait_s

    def request(self, model: str, actor: str = "api", *, force: bool = False) -> Unload:
        """Begin to unload a model everywhere, with ``force`` without waiting for its requests; nothing to do is no
        error."""
        begun = self._begin(model, actor, None, force=force)
        return Unload(
            job_id=begun.job.id if begun.job is not None else None,
            cancelled_loads=sum(job.kind == MODEL_LOAD for job in begun.taken.cancelled),
            message=_message(model, begun),
        )

    def unload_on(self, node_id: NodeId, model: str, actor: str = "api", *, force: bool = False) -> NodeUnload:
        """Unload a model on one node and wait a moment for the worker's word; nothing to do is no error.

        With ``force`` requests in flight there are cut.
        Raises WorkerRefused where the worker says that it could not stop the process; it is asked again all the same.
        """
        begun = self._begin(model, actor, node_id, force=force)
        if begun.job is None:
            return NodeUnload(job_id=None, done=True, message="model unloaded")
        job_id, here = begun.job.id, Here(self._store, begun.job.id, node_id)
        with Watch(self._reads, self._events, job_id) as watch:
            watch.until(lambda job: not job.live or here.decided(), self._wait_s)
        left = here.left()
        if (refused := refusal(left)) is not None:
            raise WorkerRefused(f"the worker could not stop {model}: {refused}; job {job_id} tries again")
        if left:
            text = f"model {model} is being unloaded: {progress_text(left)}"
            return NodeUnload(job_id=job_id, done=False, message=text)
        return NodeUnload(job_id=job_id, done=True, message="model unloaded")

    def force(self, job_id: str) -> Job:
        """Cut the requests that an unload or a drain waits for. Raises NotFound, JobEnded, NotForced (its kind)."""
        before = self._reads.get(JobId(job_id)) if is_uuid(job_id) else None
        if before is None:
            raise NotFound(f"there is no job {job_id}")
        if before.kind not in FORCED_KINDS:
            raise NotForced(f"a job {before.kind} waits for no request; cancel it to end it")
        job = self._store.force(before.id)
        if job is None:
            raise JobEnded(f"job {job_id} has ended already")
        self._announcer.tell((TellRouting(),))
        log.info("requests are cut on request", extra=logs.fields(job_id=job.id, kind=job.kind, subject=job.subject))
        return job

    def _begin(self, model: str, actor: str, node_id: NodeId | None, *, force: bool) -> Begun:
        begun = self._store.begin(model, actor, node_id, force=force)
        tell_taken(self._announcer, begun.taken)
        if begun.job is not None and begun.created:
            self._announcer.tell((WakeControl(begun.job.id, begun.job.generation),))
        log.info(
            "unload asked for",
            extra=logs.fields(
                model=model,
                node_id=node_id,
                replicas=begun.taken.marked,
                cancelled=ids_of(begun.taken.cancelled),
                force=force,
            ),
        )
        return begun


class Here:
    """What of an unload is left on one node; its job may be about others, too."""

    def __init__(self, store: PgUnloadStore, job_id: JobId, node_id: NodeId) -> None:
        self._store, self._job_id, self._node_id = store, job_id, node_id

    def left(self) -> Sequence[Left]:
        return [one for one in self._store.left(self._job_id) if one.node_id == self._node_id]

    def decided(self) -> bool:
        """Whether nothing is left, or the worker has said that it could not stop what is."""
        left = self.left()
        return not left or refusal(left) is not None


def tell_taken(announcer: Announcer, taken: Taken) -> None:
    """Tell, after the commit, whoever waits for the loads or routes to the replicas."""
    for job in taken.cancelled:
        announcer.moved(Cancel, job)
    if taken.routing_changed:
        announcer.tell((TellRouting(),))


def ids_of(jobs: Iterable[Job]) -> list[str]:
    """What a log line names them by."""
    return [job.id for job in jobs]


def _message(model: str, begun: Begun) -> str:
    if begun.taken.cancelled and not begun.taken.marked:
        return f"the load of model {model} was cancelled"
    if begun.job is not None:
        return f"model {model} is being unloaded"
    return f"model {model} is not loaded"
