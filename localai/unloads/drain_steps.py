"""What the owner of a drain does next: take away what is there, say what is left, and end when nothing is.

It keeps no state but rows, and it stops no process: the pass over drained replicas and the stops of doomed loads do.
"""

from __future__ import annotations

from localai import logs
from localai.bus.ports import Events
from localai.bus.subjects import NODES_CHANGED
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import ConfirmStop, FinishWork, Progress, TellRouting
from localai.jobs.job import Job
from localai.jobs.owner import Owner
from localai.unloads.drain_rules import Wish
from localai.unloads.drain_store import Drained, PgDrainStore
from localai.unloads.rules import drain_text
from localai.unloads.service import ids_of, tell_taken
from localai.unloads.store import PgUnloadStore

log = logs.get(__name__)


class DrainSteps:
    """`KindSteps` of ``node.drain``."""

    def __init__(
        self, owner: Owner, store: PgDrainStore, unloads: PgUnloadStore, announcer: Announcer, events: Events
    ) -> None:
        self._owner, self._store, self._unloads = owner, store, unloads
        self._announcer, self._events = announcer, events

    def due(self, job: Job) -> bool:
        """Every pass of the sweep: what is left changes without anybody telling this process."""
        return True

    def step(self, job: Job) -> None:
        self._take(job)
        if not self._owner.leases.valid(job.id, job.generation):
            self._owner.let_go(job)
            return
        drained = self._store.finish(job, self._owner.id)
        if drained is not None:
            self._tell_end(drained)
            return
        text = drain_text(self._unloads.left(job.id))
        if text and text != job.message:
            self._owner.progress(job, Progress(generation=job.generation, owner=self._owner.id, message=text))

    def _take(self, job: Job) -> None:
        """Also what was placed and not marked yet when the drain began, and what has finished loading since."""
        if job.node_id is None:
            return
        taken = self._store.take(job.node_id, f"drain:{job.id}", force=Wish.of(job.args).cut)
        tell_taken(self._announcer, taken)
        if taken.cancelled or taken.marked:
            facts = logs.fields(node=job.subject, replicas=taken.marked, cancelled=ids_of(taken.cancelled))
            log.info("taken off the node", extra=facts)

    def _tell_end(self, drained: Drained) -> None:
        self._owner.leases.done(drained.job.id)
        self._announcer.moved(FinishWork, drained.job)
        for job in drained.stopped:
            self._announcer.moved(ConfirmStop, job)
        log.info("node drained", extra=logs.fields(node=drained.job.subject, removed=drained.removed is not None))
        if drained.removed is not None:
            self._announcer.tell((TellRouting(),))
            self._announcer.forget_node(drained.removed)
            self._events.publish(NODES_CHANGED, {"node_id": drained.removed})
