"""What a pass over all rows finds that no message told anybody: windows, leases and stops whose time has come.

It needs no queue and no bus: it is what heals both. Every control process runs it; rows that another one holds are
skipped, and every move is guarded, so that two passes at once do nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Judgement:
    """A pass that takes silence for a fact: it runs only after ``after_s`` seconds of observation without a gap."""

    run: Callable[[], object]
    after_s: float


def _always() -> float:
    return math.inf


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
        also: Mapping[str, Callable[[], object] | Judgement] | None = None,
        observe: Callable[[], float] = _always,
        lapse_after_s: float = 0.0,
    ) -> None:
        """``step_later`` and ``stop_later`` run elsewhere: a pass never waits for a step or a node.

        ``observe`` returns for how many seconds the rows have been observed without a gap. A lost owner is judged after
        ``lapse_after_s`` of them: by then the agents that work have reported, and their loads are adopted instead.
        """
        self._sweeps, self._moves, self._owner, self._stepper = sweeps, moves, owner, stepper
        self._announcer, self._step_later, self._stop_later = announcer, step_later, stop_later
        self._observe = observe
        self._passes: Mapping[str, Callable[[], object] | Judgement] = {
            "loads to adopt": self._adopt,
            "lapsed leases": Judgement(self._lapsed, lapse_after_s),
            "queued jobs": self._queued,
            "unclaimed orders": self._unclaimed,
            "own jobs": self._own,
            "pending stops": self._stops,
            **(also or {}),
        }

    def run_once(self) -> None:
        """One pass. A part that fails delays no other part; without a database the pass is over."""
        try:
            watched_s = self._observe()
        except StorageUnavailable as error:
            log.warning("sweep: %s", error.message)
            return
        except Exception:
            log.exception("sweep of gaps")
            watched_s = 0.0
        for name, run in self._due(watched_s):
            try:
                run()
            except StorageUnavailable as error:
                log.warning("sweep of %s: %s", name, error.message)
                return
            except Exception:
                log.exception("sweep of %s", name)

    def _due(self, watched_s: float) -> Iterator[tuple[str, Callable[[], object]]]:
        """The passes of this turn: none that judges before it has observed for long enough."""
        for name, run in self._passes.items():
            if not isinstance(run, Judgement):
                yield name, run
            elif watched_s >= run.after_s:
                yield name, run.run

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
