"""What a pass over all rows finds that no message told anybody: windows, leases and stops whose time has come.

It needs no queue and no bus: it is what heals both. Every control process runs it; rows that another one holds are
skipped, and every move is guarded, so that two passes at once do nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from localai import logs
from localai.errors import StorageUnavailable
from localai.ids import JobId
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import GiveUpStop, Lapse, Requeue, Resend
from localai.jobs.job import Job, State
from localai.jobs.owner import Owner
from localai.jobs.ports import OwnerMoves, SweepMoves
from localai.jobs.stepper import JobStepper

log = logs.get(__name__)

#: Rows of one kind of lapse that one pass looks at.
LIMIT = 100


class Sweep:
    """One pass of everything. ``also`` are passes of other subsystems, by name."""

    def __init__(
        self,
        sweeps: SweepMoves,
        moves: OwnerMoves,
        owner: Owner,
        stepper: JobStepper,
        announcer: Announcer,
        *,
        step_later: Callable[[JobId, int], object],
        stop_later: Callable[[Job], object],
        also: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        """``step_later`` and ``stop_later`` run elsewhere: a pass never waits for a step or a node."""
        self._sweeps, self._moves, self._owner, self._stepper = sweeps, moves, owner, stepper
        self._announcer, self._step_later, self._stop_later = announcer, step_later, stop_later
        self._passes: Mapping[str, Callable[[], object]] = {
            "loads to adopt": self._adopt,
            "lapsed leases": self._lapsed,
            "queued jobs": self._queued,
            "unclaimed orders": self._unclaimed,
            "own jobs": self._own,
            "pending stops": self._stops,
            **(also or {}),
        }

    def run_once(self) -> None:
        """One pass. A part that fails delays no other part; without a database the pass is over."""
        for name, run in self._passes.items():
            try:
                run()
            except StorageUnavailable as error:
                log.warning("sweep of %s: %s", name, error.message)
                return
            except Exception:
                log.exception("sweep of %s", name)

    def _adopt(self) -> None:
        """Before the pass over lapsed leases, which leaves such loads to whoever adopts them."""
        for job in self._owner.adopt(LIMIT):
            log.warning(
                "owner lost, its load is adopted",
                extra=logs.fields(job_id=job.id, subject=job.subject, generation=job.generation),
            )

    def _lapsed(self) -> None:
        for job in self._sweeps.lapse(LIMIT):
            event = Requeue if job.state == State.QUEUED else Lapse
            log.warning(
                "owner lost", extra=logs.fields(job_id=job.id, kind=job.kind, subject=job.subject, now=job.state.value)
            )
            self._announcer.moved(event, job)

    def _queued(self) -> None:
        for job in self._sweeps.due_queued(LIMIT):
            self._step_later(job.id, job.generation)

    def _unclaimed(self) -> None:
        for job in self._moves.resend_due(self._owner.id, LIMIT):
            self._announcer.moved(Resend, job)

    def _own(self) -> None:
        for job in self._moves.owned(self._owner.id):
            if self._stepper.due(job):
                self._step_later(job.id, job.generation)

    def _stops(self) -> None:
        for job in self._sweeps.give_up_stops(LIMIT):
            log.warning(
                "the stop of a legacy node's work is given up: its window is over",
                extra=logs.fields(job_id=job.id, subject=job.subject, node_id=job.node_id),
            )
            self._announcer.moved(GiveUpStop, job)
        for job in self._sweeps.due_stops(LIMIT):
            self._stop_later(job)
