"""How an attempt begins and how it ends, as steps of an open transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from localai.db.unit_of_work import UnitOfWork
from localai.ids import JobId, new_id
from localai.jobs.effect_rules import CANCELLED
from localai.jobs.event_rules import Cancel, Event
from localai.jobs.job import Job, State, StopState, Windows
from localai.jobs.kinds import Kinds
from localai.jobs.operation_rules import Cause
from localai.jobs.ports import NewJob
from localai.jobs.quarantine_rules import counts, silences
from localai.jobs.rows import SQL, job_of, one_job, record, record_end, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an attempt ends without success: which move, under which guard of `end_job`, with which words.

    ``fence`` holds what the guard compares: generation and owner, generation, or node and incarnation.
    """

    move: type[Event]
    guard: str
    to: State
    cause: str
    error: str
    detail: Mapping[str, Any] | None = None
    ended: bool = False
    fence: Mapping[str, Any] | None = None


CANCEL = Ending(move=Cancel, guard="cancel", to=State.CANCELLED, cause=Cause.CANCELLED, error=CANCELLED)


def lock_subject(uow: UnitOfWork, kinds: Kinds, new: NewJob) -> Mapping[str, Any]:
    """Hold the row of the subject until the commit; made when it is not there yet. Its counter and revision."""
    subject = {"subject_kind": kinds[new.kind].subject_kind, "subject": new.subject}
    while (row := uow.execute(SQL["lock_subject"], subject).mappings().first()) is None:
        uow.execute(SQL["insert_subject"], subject)
    return dict(row)


def insert(uow: UnitOfWork, kinds: Kinds, windows: Windows, new: NewJob) -> Job:
    """A new attempt under the next generation; the caller holds the subject."""
    subject = {"subject_kind": kinds[new.kind].subject_kind, "subject": new.subject}
    generation = uow.execute(SQL["draw_generation"], subject).scalar_one()
    parameters = {
        "id": new_id(),
        "kind": new.kind,
        "subject": new.subject,
        "slot": new.slot,
        "parent_id": new.parent_id,
        "generation": generation,
        "args": to_json(new.args),
        "revision": new.revision,
        "node_id": new.node_id,
        "dispatch": windows.dispatch_s,
    }
    job = job_of(uow.execute(SQL["insert_job"], parameters).mappings().one())
    record(uow, "requested", job, "request")
    return job


def end(uow: UnitOfWork, windows: Windows, job_id: JobId, ending: Ending, *, actor: str) -> Job | None:
    """Run `end_job`, and what it means for the replica row; None where the guard did not hold."""
    parameters = {
        "id": job_id,
        "to": ending.to,
        "guard": ending.guard,
        "cause": ending.cause,
        "error": ending.error,
        "detail": to_json(ending.detail),
        "ended": ending.ended,
        "stop_window": windows.stop_s,
        "legacy_window": windows.legacy_s,
        "report_window": windows.report_s,
        "generation": None,
        "owner": None,
        "node": None,
        "incarnation": None,
        **(ending.fence or {}),
    }
    job = one_job(uow.execute(SQL["end_job"], parameters))
    if job is None:
        return None
    uow.execute(SQL["doom_replica" if job.stop_state == StopState.PENDING else "free_replica"], {"id": job_id})
    record_end(uow, ending.move, job, actor)
    if silences(job):
        uow.execute(SQL["mark_silent_node"], {"node": job.node_id})
    if counts(job):
        _count_failure(uow, job)
    return job


def _count_failure(uow: UnitOfWork, job: Job) -> None:
    """The failure speaks against its node: enough of them in a row keep the model off it."""
    parameters = {
        "model": job.subject,
        "revision": job.revision,
        "node": job.node_id,
        "cause": job.error_cause,
        "at": job.finished_at,
        "error": job.error or "",
        "job": job.id,
    }
    uow.execute(SQL["count_failure"], parameters)


def cancel(
    uow: UnitOfWork, kinds: Kinds, windows: Windows, job_id: JobId, *, actor: str, why: str = CANCELLED
) -> list[Job]:
    """Cancel a live job and what only serves it; those that were live. ``why`` is the error that waiters read.

    What serves ends first, so that no hold of it outlasts the hold of the job.
    """
    if uow.execute(SQL["lock_live"], {"id": job_id}).first() is None:
        return []
    pairs = [(kind.name, kind.serves) for kind in kinds.values() if kind.serves is not None]
    parameters = {"id": job_id, "servants": [name for name, _ in pairs], "served": [served for _, served in pairs]}
    locked = uow.execute(SQL["lock_to_cancel"], parameters).all()
    ending = replace(CANCEL, error=why)
    ended = (end(uow, windows, JobId(row.id), ending, actor=actor) for row in locked)
    return [job for job in ended if job is not None]
