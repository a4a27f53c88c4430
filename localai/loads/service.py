"""What a request does about a model that is not loaded: claim or attach, and read how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from localai.errors import NotFound
from localai.ids import JobId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import TellRouting, WakeControl
from localai.jobs.ports import Intake
from localai.loads.ports import History, LoadMoves, LoadReads, LoadRow
from localai.loads.status_rules import LoadStatus, load_status


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTicket:
    """The attempt a request is told to wait for, or told about.

    ``state``: `created` and `live` load, `held` failed a moment ago, `loaded` serves already (re-read the routing).
    """

    job_id: str
    generation: int
    state: str
    status: LoadStatus


class LoadService:
    """Claims milliseconds of the database; holds no connection and no lock while anything loads."""

    def __init__(
        self, moves: LoadMoves, reads: LoadReads, announcer: Announcer, history: History | None = None
    ) -> None:
        self._moves, self._reads, self._announcer = moves, reads, announcer
        self._history = history

    def request(self, model: str, revision: str) -> LoadTicket:
        """Attach to the attempt of a model, or begin one. Raises StorageUnavailable."""
        outcome, job = self._moves.request(model, revision)
        if outcome is Intake.CREATED:
            self._announcer.tell((WakeControl(job.id, job.generation),))
        return LoadTicket(job_id=job.id, generation=job.generation, state=outcome.value, status=load_status(job))

    def revise(self, model: str, revision: str) -> None:
        """Make this the revision of a model: replicas of another get no request any more, and are drained.

        Raises StorageUnavailable.
        """
        if self._moves.revise(model, revision):
            self._announcer.tell((TellRouting(),))

    def status(self, model: str) -> LoadStatus | None:
        """The live attempt of a model, or the one that holds it; None where it neither loads nor is held.

        Raises StorageUnavailable: no answer is never the same as nothing.
        """
        row = self._reads.current(model)
        return None if row is None else self._status(row)

    def read(self, job_id: str) -> LoadStatus:
        """One attempt, as its waiters remember it. Raises NotFound, StorageUnavailable."""
        row = self._reads.attempt(JobId(job_id)) if is_uuid(job_id) else None
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return self._status(row)

    def _status(self, row: LoadRow) -> LoadStatus:
        return load_status(row.job, row.install, self._history.of(row.job) if self._history else ())
