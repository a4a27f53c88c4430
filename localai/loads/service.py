"""What a request does about a model that is not loaded: claim or attach, and read how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from localai import logs
from localai.errors import AttemptLive, NotFound
from localai.ids import JobId, NodeId, is_uuid
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import TellRouting, WakeControl
from localai.jobs.ports import Intake
from localai.jobs.quarantine_rules import Streak
from localai.loads.ports import History, LoadMoves, LoadReads, LoadRow, Quarantined, Quarantines
from localai.loads.status_rules import LoadStatus, load_status, quarantined_status
from localai.models.revision_rules import Evidence, Standing

log = logs.get(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTicket:
    """The attempt a request is told to wait for, or told about.

    ``state``: `created` and `live` load, `held` takes no attempt now (`status.refusal()` says why), `loaded` serves
    already (re-read the routing).
    """

    job_id: str
    generation: int
    state: str
    status: LoadStatus


class LoadService:
    """Claims milliseconds of the database; holds no connection and no lock while anything loads."""

    def __init__(
        self,
        moves: LoadMoves,
        reads: LoadReads,
        announcer: Announcer,
        *,
        history: History | None = None,
        quarantines: Quarantines | None = None,
    ) -> None:
        self._moves, self._reads, self._announcer = moves, reads, announcer
        self._history, self._quarantines = history, quarantines

    def request(self, model: str, revision: str) -> LoadTicket:
        """Attach to the attempt of a model, or begin one. Raises StorageUnavailable."""
        answer = self._moves.request(model, revision)
        if isinstance(answer, Quarantined):
            status = quarantined_status(model, answer.streaks)
            return LoadTicket(job_id=status.job_id, generation=0, state=Intake.HELD.value, status=status)
        outcome, job = answer
        if outcome is Intake.CREATED:
            self._announcer.tell((WakeControl(job.id, job.generation),))
        return LoadTicket(job_id=job.id, generation=job.generation, state=outcome.value, status=load_status(job))

    def revise(self, model: str, revision: str, evidence: Evidence) -> Standing:
        """Put a revision in force if it is newer: replicas of another get no request any more, and are drained.

        Raises StorageUnavailable.
        """
        standing = self._moves.revise(model, revision, evidence)
        if standing is Standing.SET:
            self._announcer.tell((TellRouting(),))
        return standing

    def revisions(self, models: Sequence[str]) -> Mapping[str, str]:
        """The revisions in force of these models. Raises StorageUnavailable."""
        return self._reads.revisions(models)

    def retry(self, model: str, revision: str) -> tuple[LoadTicket, int]:
        """Lift the quarantines of a model and begin an attempt, if no hold lies ahead; how many were lifted.

        Raises AttemptLive, which lifts nothing, and StorageUnavailable.
        """
        row = self._reads.current(model)
        if row is not None and row.job.live:
            raise AttemptLive(model, row.job.id)
        lifted = self.lift(model)
        return self.request(model, revision), lifted

    def lift(self, model: str) -> int:
        """Forget the failures of a model on every node; how many quarantines that ends. Raises StorageUnavailable."""
        lifted = self._quarantines.lift(model) if self._quarantines else 0
        if lifted:
            log.info("quarantine lifted", extra=logs.fields(model=model, nodes=lifted))
        return lifted

    def quarantines(self, *, model: str | None = None, node_id: NodeId | None = None) -> Sequence[Streak]:
        """Which models are kept off which nodes. Raises StorageUnavailable."""
        return self._quarantines.list(model=model, node_id=node_id) if self._quarantines else ()

    def status(self, model: str) -> LoadStatus | None:
        """The live attempt of a model, or what keeps it from one: the hold of the last, or a quarantine everywhere.

        None where it neither loads nor is held. Raises StorageUnavailable: no answer is never the same as nothing.
        """
        row = self._reads.current(model)
        if row is not None:
            return replace(self._status(row), quarantined=tuple(self.quarantines(model=model)))
        blocked = self._quarantines.blocking(model) if self._quarantines else None
        return None if blocked is None else quarantined_status(model, blocked.streaks)

    def read(self, job_id: str) -> LoadStatus:
        """One attempt, as its waiters remember it. Raises NotFound, StorageUnavailable."""
        row = self._reads.attempt(JobId(job_id)) if is_uuid(job_id) else None
        if row is None:
            raise NotFound(f"there is no job {job_id}")
        return self._status(row)

    def _status(self, row: LoadRow) -> LoadStatus:
        return load_status(row.job, row.install, self._history.of(row.job) if self._history else ())
