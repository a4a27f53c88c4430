"""How a sweep finds and moves rows whose time is over, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from localai.db.unit_of_work import UnitOfWorkFactory
from localai.jobs.attempts import Ending, end
from localai.jobs.effect_rules import lapse_cause
from localai.jobs.event_rules import GiveUpStop, Lapse, Requeue, RetryStop
from localai.jobs.guard_rules import MAX_ADOPTIONS
from localai.jobs.job import Job, State, Windows
from localai.jobs.kinds import KINDS, Kind, Kinds, OnLapse
from localai.jobs.rows import EVENT_NAMES, SQL, jobs_of, one_job, record

#: Who makes a move that no owner, agent or person made.
SWEEP = "sweep"


class PgSweepStore:
    """`SweepMoves` on PostgreSQL."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, windows: Windows, kinds: Kinds = KINDS) -> None:
        self._unit_of_work, self._windows, self._kinds = unit_of_work, windows, kinds

    def lapse(self, limit: int) -> Sequence[Job]:
        moved = self._fail_lapsed(limit)
        for kind in self._kinds.values():
            if kind.on_lapse == OnLapse.REQUEUE:
                moved += self._requeue_lapsed(kind, limit)
        return moved

    def due_queued(self, limit: int) -> Sequence[Job]:
        parameters = {"kinds": list(self._kinds), "limit": limit, "dispatch_max": self._windows.dispatch_max_s}
        with self._unit_of_work() as uow:
            return jobs_of(uow.execute(SQL["due_queued"], parameters))

    def due_stops(self, limit: int) -> Sequence[Job]:
        parameters = {
            "limit": limit,
            "retry_max": self._windows.stop_retry_max_s,
            "retry_late": self._windows.stop_retry_late_s,
        }
        with self._unit_of_work() as uow:
            jobs = jobs_of(uow.execute(SQL["due_stops"], parameters))
            for job in jobs:
                record(uow, EVENT_NAMES[RetryStop], job, SWEEP, {"attempt": job.stop_attempts})
            return jobs

    def give_up_stops(self, limit: int) -> Sequence[Job]:
        with self._unit_of_work() as uow:
            jobs = jobs_of(uow.execute(SQL["give_up_stops"], {"limit": limit}))
            for job in jobs:
                uow.execute(SQL["free_replica"], {"id": job.id})
                record(uow, EVENT_NAMES[GiveUpStop], job, SWEEP)
            return jobs

    def prune(self, older_than_s: float, limit: int) -> int:
        with self._unit_of_work() as uow:
            pruned = uow.execute(SQL["prune_jobs"], {"older_than": older_than_s, "limit": limit}).rowcount
            uow.execute(SQL["scrub_env"])
            uow.execute(SQL["prune_subjects"])
            uow.execute(SQL["prune_streaks"])
            uow.execute(SQL["prune_silent_nodes"])
            return pruned

    def _fail_lapsed(self, limit: int) -> list[Job]:
        adopted = [kind.name for kind in self._kinds.values() if kind.on_lapse == OnLapse.ADOPT]
        fresh_s = self._windows.adopt_fresh_s
        parameters = {
            "kinds": [*adopted, *(kind.name for kind in self._kinds.values() if kind.on_lapse == OnLapse.FAIL)],
            "adoptable": [] if fresh_s is None else adopted,
            "most": MAX_ADOPTIONS,
            "fresh": fresh_s or 0.0,
            "limit": limit,
        }
        with self._unit_of_work() as uow:
            lapsed = jobs_of(uow.execute(SQL["lapsed_to_fail"], parameters))
            ended = (end(uow, self._windows, job.id, _lapsed(job), actor=SWEEP) for job in lapsed)
            return [job for job in ended if job is not None]

    def _requeue_lapsed(self, kind: Kind, limit: int) -> list[Job]:
        moved = []
        parameters = {"kind": kind.name, "subject_kind": kind.subject_kind, "limit": limit}
        with self._unit_of_work() as uow:
            for job in jobs_of(uow.execute(SQL["lapsed_to_requeue"], parameters)):
                if kind.spent(job.attempts, given_back=job.given_back):
                    after = end(uow, self._windows, job.id, _lapsed(job), actor=SWEEP)
                else:
                    subject = {"subject_kind": kind.subject_kind, "subject": job.subject}
                    fence = {
                        "id": job.id,
                        "generation": job.generation,
                        "new_generation": uow.execute(SQL["draw_generation"], subject).scalar_one(),
                        "dispatch": self._windows.dispatch_s,
                    }
                    after = one_job(uow.execute(SQL["requeue_job"], fence))
                    if after is not None:
                        record(uow, EVENT_NAMES[Requeue], after, SWEEP, {"lost_owner": job.owner})
                if after is not None:
                    moved.append(after)
        return moved


def _lapsed(job: Job) -> Ending:
    cause, error = lapse_cause(job)
    fence = {"generation": job.generation}
    return Ending(
        move=Lapse, guard="lapse", to=State.FAILED, cause=cause, error=error, detail=job.op_error, fence=fence
    )
