"""What a control process does with the jobs it owns: take, renew, finish, fail, and let go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localai import logs
from localai.errors import Replaced
from localai.ids import OwnerId
from localai.jobs.announce import Announcer
from localai.jobs.counts import count_fenced
from localai.jobs.event_rules import Adopt, Event, Fail, FinishWork, Progress, Release, Take
from localai.jobs.job import Job, State
from localai.jobs.leases import LeaseBook
from localai.jobs.ports import OwnerMoves

log = logs.get(__name__)


class Owner:
    """One owner of jobs. Each method raises Replaced where the row is no longer ours: then drop it, send nothing."""

    def __init__(self, owner: OwnerId, moves: OwnerMoves, leases: LeaseBook, announcer: Announcer) -> None:
        self.id, self.leases = owner, leases
        self._moves, self._announcer = moves, announcer

    def take(self, job: Job) -> Job | None:
        """Become the owner of a queued job; None where somebody else was faster."""
        sent_at = self.leases.now()
        taken = self._moves.take(job.id, job.generation, self.id)
        if taken is None:
            count_fenced(Take)
            return None
        if not self.leases.hold(taken.id, taken.generation, sent_at):
            return None
        self._announcer.moved(Take, taken)
        return taken

    def adopt(self, limit: int) -> Sequence[Job]:
        """Go on with loads whose owner is lost, each under a new generation. Nothing is sent to an agent."""
        sent_at = self.leases.now()
        adopted = self._moves.adopt(self.id, limit)
        for job in adopted:
            self.leases.hold(job.id, job.generation, sent_at)
            self._announcer.moved(Adopt, job)
        return adopted

    def knows(self, job: Job) -> bool:
        """Whether our own clock runs for a job that names us, or ran out: if not, we never heard that it is ours."""
        return self.leases.knows(job.id, job.generation)

    def holds(self, job: Job) -> bool:
        """Whether a running job is ours by its row and by our own clock.

        A row that names us while we know nothing of it is a take or an adoption whose answer was lost: the lease is
        renewed first, so that the local one counts from a moment we know.
        """
        if job.state != State.RUNNING or job.owner != self.id:
            return False
        if not self.leases.knows(job.id, job.generation):
            sent_at = self.leases.now()
            if job.id not in self._moves.renew(self.id, [(job.id, job.generation)]).renewed:
                return False
            self.leases.hold(job.id, job.generation, sent_at)
        return self.leases.valid(job.id, job.generation)

    def act(self, job: Job, event: type[Event], move: Callable[[], Job | None]) -> Job:
        """Make one of our own moves, if our lease still holds, and tell what follows from it."""
        if not self.leases.valid(job.id, job.generation):
            self.let_go(job)
            raise Replaced(job_id=job.id)
        moved = move()
        if moved is None:
            count_fenced(event)
            self.let_go(job)
            raise Replaced(job_id=job.id)
        if not moved.live:
            self.leases.done(job.id)
        self._announcer.moved(event, moved)
        return moved

    def progress(self, job: Job, event: Progress) -> Job:
        return self.act(job, Progress, lambda: self._moves.progress(job.id, event))

    def finish(self, job: Job) -> Job:
        """Success of work that this process did itself."""
        return self.act(job, FinishWork, lambda: self._moves.finish(job.id, job.generation, self.id))

    def fail(self, job: Job, cause: str, error: str, *, ended: bool, detail: Mapping[str, Any] | None = None) -> Job:
        """End a job with its cause. ``ended``: it is a fact that nothing of it runs."""
        event = Fail(generation=job.generation, owner=self.id, cause=cause, error=error, ended=ended, detail=detail)
        log.info("job failed", extra=logs.fields(job_id=job.id, kind=job.kind, cause=cause, error=error))
        return self.act(job, Fail, lambda: self._moves.fail(job.id, event))

    def renew(self) -> None:
        """Renew every lease of this process in one statement; drop what was replaced. Raises StorageUnavailable."""
        held = self.leases.held()
        if not held:
            return
        sent_at = self.leases.now()
        answer = self._moves.renew(self.id, held)
        self.leases.renewed(held, answer.renewed, sent_at)
        for job_id, generation in held:
            if job_id not in answer.renewed and job_id not in answer.untouched:
                log.info("not supervised any more: ended or taken over", extra=logs.fields(job_id=job_id))
                self.leases.drop(job_id, generation)

    def release(self) -> None:
        """At the end of this process: act for no job any more, and give back the leases that others can go on with.

        Raises StorageUnavailable; they lapse by themselves then.
        """
        for job_id, generation in self.leases.held():
            self.leases.drop(job_id, generation)
        for job in self._moves.release(self.id):
            self._announcer.moved(Release, job)

    def let_go(self, job: Job) -> None:
        """Stop supervising a job."""
        self.leases.drop(job.id, job.generation)
