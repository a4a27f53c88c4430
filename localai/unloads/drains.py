"""What a person asks for: take a node out of use, let it back, or remove it, and cut no request."""

from __future__ import annotations

from dataclasses import dataclass

from localai import logs
from localai.bus.ports import Events
from localai.bus.subjects import NODES_CHANGED
from localai.errors import NotFound
from localai.ids import NodeId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import Cancel, TellRouting, WakeControl
from localai.jobs.job import Job
from localai.jobs.ports import JobReads
from localai.jobs.watches import Watch
from localai.unloads.drain_rules import Wish
from localai.unloads.drain_store import PgDrainStore

log = logs.get(__name__)

#: A node on which nothing runs goes within a fraction of it.
REMOVAL_WAIT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What was begun or called off. ``job_id`` is the job that empties the node, or that did."""

    job_id: str | None
    #: Of a removal: whether the node is gone.
    done: bool
    message: str


class DrainService:
    """The node is out of use at once; control empties it. Raises NotFound, StorageUnavailable."""

    def __init__(
        self,
        store: PgDrainStore,
        reads: JobReads,
        announcer: Announcer,
        events: Events,
        *,
        removal_wait_s: float = REMOVAL_WAIT_S,
    ) -> None:
        self._store, self._reads, self._announcer, self._events = store, reads, announcer, events
        self._removal_wait_s = removal_wait_s

    def drain(self, node_id: str, *, force: bool = False) -> Drain:
        """No new work; what runs there ends or is cancelled, with ``force`` at once. A repeat changes nothing else."""
        job = self._begin(node_id, Wish(cut=force))
        return Drain(job_id=job.id, done=False, message="node set to draining")

    def remove(self, node_id: str, *, force: bool = False) -> Drain:
        """Drain a node, and delete it when nothing is left there; with ``force`` at once."""
        job = self._begin(node_id, Wish(remove=True, force=force))
        with Watch(self._reads, self._events, job.id) as watch:
            after = watch.until(lambda job: not job.live, self._removal_wait_s)
        if after is None or not after.live:
            return Drain(job_id=job.id, done=True, message="node deregistered")
        waits = f": {after.message}" if after.message else ""
        return Drain(job_id=job.id, done=False, message=f"node {after.subject} is being removed{waits}")

    def resume(self, node_id: str, actor: str = "api") -> Drain:
        """Let a node get work again; a drain or removal under way is called off. Asking again changes nothing."""
        resumed = self._store.resume(NodeId(node_id), actor) if is_uuid(node_id) else None
        if resumed is None:
            raise NotFound(f"there is no node {node_id}")
        off = resumed.called_off
        if off is not None:
            self._announcer.moved(Cancel, off)
        self._tell(node_id)
        log.info("node resumed", extra=logs.fields(node_id=node_id, called_off=off.id if off else None))
        return Drain(job_id=off.id if off is not None else None, done=True, message="node resumed")

    def _begin(self, node_id: str, wish: Wish) -> Job:
        begun = self._store.begin(NodeId(node_id), wish) if is_uuid(node_id) else None
        if begun is None:
            raise NotFound(f"there is no node {node_id}")
        job, _ = begun
        self._announcer.tell((WakeControl(job.id, job.generation),))
        self._tell(node_id)
        log.info(
            "node is drained", extra=logs.fields(node=job.subject, node_id=node_id, job_id=job.id, **wish.to_args())
        )
        return job

    def _tell(self, node_id: str) -> None:
        self._announcer.tell((TellRouting(),))
        self._events.publish(NODES_CHANGED, {"node_id": node_id})
