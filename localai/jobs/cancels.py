"""What a person asks for: end a job that is live, and know within a moment whether its work has ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from localai import logs
from localai.bus.ports import Events
from localai.errors import JobEnded, NotCancellable, NotFound
from localai.ids import JobId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.cancel_rules import CancelAnswer, CancelState, end_of, release_s, why_not
from localai.jobs.event_rules import Cancel, SendStop
from localai.jobs.job import Job, StopState
from localai.jobs.ports import JobReads
from localai.jobs.watches import Watch

log = logs.get(__name__)

#: A live worker confirms within a fraction of it: TERM is answered at once by most processes.
CONFIRM_WAIT_S = 2.0


class CancelMoves(Protocol):
    """Cancels as rows. Raises StorageUnavailable."""

    def cancel(self, job_id: JobId, actor: str) -> Sequence[Job]:
        """End a live job and the live jobs that only serve it, in one transaction; the rows that were ended."""


class CancelService:
    """Every method raises StorageUnavailable. Repeats change nothing but send a pending stop again."""

    def __init__(
        self,
        moves: CancelMoves,
        reads: JobReads,
        announcer: Announcer,
        events: Events,
        *,
        wait_s: float = CONFIRM_WAIT_S,
        watch: Callable[[JobReads, Events, JobId], Watch] = Watch,
    ) -> None:
        self._moves, self._reads, self._announcer, self._events = moves, reads, announcer, events
        self._wait_s, self._watch = wait_s, watch

    def cancel(self, job_id: str, actor: str = "api") -> CancelAnswer:
        """Cancel a job of any kind. Raises NotFound, NotCancellable (its kind), JobEnded (it ended by itself)."""
        job = self._reads.get(JobId(job_id)) if is_uuid(job_id) else None
        if job is None:
            raise NotFound(f"there is no job {job_id}")
        if job.live and (reason := why_not(job)) is not None:
            raise NotCancellable(f"a job {job.kind} cannot be cancelled: {reason}")
        after = self.end(job.id, actor) or job
        state = end_of(after)
        if state is None:
            raise JobEnded(f"job {job_id} has ended already: it {_ended(after)}")
        return CancelAnswer(
            job_id=after.id,
            kind=after.kind,
            subject=after.subject,
            state=state,
            retry_after=release_s(after) if state is CancelState.STOPPING else None,
        )

    def end(self, job_id: JobId, actor: str) -> Job | None:
        """End a live job, or send the pending stop of one that ended again; the row after a moment's wait for proof."""
        with self._watch(self._reads, self._events, job_id) as watch:
            ended = self._moves.cancel(job_id, actor)
            for job in ended:
                log.info("cancelled", extra=logs.fields(job_id=job.id, kind=job.kind, stop=job.stop_state.value))
                self._announcer.moved(Cancel, job)
            if not ended:
                self._send_again(job_id)
            return watch.until(lambda job: job.stop_state != StopState.PENDING, self._wait_s)

    def _send_again(self, job_id: JobId) -> None:
        job = self._reads.get(job_id)
        if job is not None and job.stop_state == StopState.PENDING:
            self._announcer.tell((SendStop(job.id, job.generation),))


def _ended(job: Job) -> str:
    return f"failed: {job.error}" if job.error else job.state.value
