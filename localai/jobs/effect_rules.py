"""What each move changes in the row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from localai.jobs.copies import changed
from localai.jobs.event_rules import (
    Adopt,
    Cancel,
    Claim,
    ConfirmStop,
    Fail,
    Finish,
    FinishWork,
    GiveUpStop,
    Lapse,
    Missing,
    NewIncarnation,
    Place,
    Progress,
    Release,
    Relocate,
    Renew,
    Reported,
    Requeue,
    Resend,
    RetryStop,
    Take,
    WorkGone,
)
from localai.jobs.guard_rules import MAX_ADOPTIONS
from localai.jobs.job import Job, State, StopState, Windows, after
from localai.jobs.operation_rules import Cause, OpState

#: Full reports in a row without a claimed operation after which the agent has lost it.
MISSING_REPORTS = 3
OPERATION_LOST: Mapping[str, Any] = {
    "cause": Cause.OPERATION_LOST.value,
    "message": "the worker no longer knows the operation",
}
OWNER_LOST = "the process that supervised this job stopped renewing its lease"
WORKER_RESTARTED = "the worker restarted while it ran this load"
CANCELLED = "cancelled by request"


def take(job: Job, event: Take, now: datetime, windows: Windows) -> Job:
    return changed(
        job,
        state=State.RUNNING,
        owner=event.owner,
        lease_expires_at=after(now, windows.lease_s),
        attempts=job.attempts + 1,
        started_at=job.started_at or now,
        phase_started_at=now,
        dispatch_window_s=None,
        dispatch_expires_at=None,
    )


def place(job: Job, event: Place, now: datetime, windows: Windows) -> Job:
    return changed(
        job,
        node_id=event.node_id,
        op_generation=job.generation,
        op_state=OpState.SENT,
        legacy=event.legacy,
        placed_at=now,
        args={**job.args, "order": dict(event.order)},
        message=None,
        dispatch_window_s=windows.dispatch_s,
        dispatch_expires_at=after(now, windows.dispatch_s),
    )


def relocate(job: Job, event: Relocate, now: datetime, windows: Windows) -> Job:
    """The claim of the node before names another operation and another node, so it is refused whenever it comes."""
    return changed(
        job,
        node_id=event.node_id,
        op_generation=event.op_generation,
        legacy=event.legacy,
        placed_at=now,
        args={**job.args, "order": dict(event.order)},
        dispatch_window_s=windows.dispatch_s,
        dispatch_expires_at=after(now, windows.dispatch_s),
    )


def resend(job: Job, event: Resend, now: datetime, windows: Windows) -> Job:
    window_s = min((job.dispatch_window_s or windows.dispatch_s) * 2, windows.dispatch_max_s)
    return changed(job, dispatch_window_s=window_s, dispatch_expires_at=after(now, window_s))


def claim(job: Job, event: Claim, now: datetime, windows: Windows) -> Job:
    first = job.node_incarnation is None
    return changed(
        job,
        node_incarnation=event.incarnation,
        legacy=False,
        op_state=OpState.CLAIMED if first else job.op_state,
        op_claim_seq=event.seq if first else job.op_claim_seq,
        op_seen_at=now,
        dispatch_window_s=None,
        dispatch_expires_at=None,
    )


def report(job: Job, event: Reported, now: datetime, windows: Windows) -> Job:
    entered = event.phase != job.phase
    moved = entered or event.progress > job.progress
    return changed(
        job,
        # An agent that has not seen its grant yet says `sent`; the row knows better.
        op_state=job.op_state if event.op_state == OpState.SENT else event.op_state,
        op_seen_at=now,
        op_missing=0,
        op_error=event.error,
        phase=event.phase,
        phase_started_at=now if entered else job.phase_started_at,
        progress=max(event.progress, job.progress),
        progress_at=now if moved else job.progress_at,
        bytes_done=event.bytes_done,
        bytes_total=event.bytes_total,
        file_index=event.file_index,
        files_total=event.files_total,
        message=event.message,
        process_instance=event.process_instance or job.process_instance,
        address=event.address or job.address,
        identity=event.identity or job.identity,
    )


def missing(job: Job, event: Missing, now: datetime, windows: Windows) -> Job:
    missing = job.op_missing + 1
    if missing < MISSING_REPORTS:
        return changed(job, op_missing=missing)
    return changed(job, op_missing=missing, op_state=OpState.ENDED, op_error=OPERATION_LOST)


def renew(job: Job, event: Renew, now: datetime, windows: Windows) -> Job:
    return changed(job, lease_expires_at=after(now, windows.lease_s))


def progress(job: Job, event: Progress, now: datetime, windows: Windows) -> Job:
    return changed(
        job,
        progress=job.progress + 1,
        progress_at=now,
        bytes_done=event.bytes_done,
        bytes_total=event.bytes_total,
        file_index=event.file_index,
        files_total=event.files_total,
        message=event.message,
    )


def finish(job: Job, event: Finish | FinishWork, now: datetime, windows: Windows) -> Job:
    return changed(job, state=State.SUCCEEDED, finished_at=now, lease_expires_at=None)


def nothing_runs(job: Job, *, ended: bool = False) -> bool:
    """Whether it is a fact that no remote work of this attempt runs or will run.

    A claim is what starts work, and it is refused once the row is terminal: what was never claimed never starts. An
    agent that does not claim starts what it was sent.
    """
    never_claimed = job.node_incarnation is None and not job.legacy
    return ended or job.op_generation is None or never_claimed or job.op_state == OpState.ENDED


def _end(job: Job, to: State, now: datetime, windows: Windows, *, cause: str, error: str, ended: bool = False) -> Job:
    over = nothing_runs(job, ended=ended)
    stop_s = windows.legacy_s if job.legacy else windows.stop_s
    # A legacy node is stopped by exact address only: without one there is nothing to send.
    sent_at = None if over or (job.legacy and job.address is None) else now
    return changed(
        job,
        state=to,
        error_cause=cause,
        error=error,
        finished_at=now,
        lease_expires_at=None,
        dispatch_window_s=None,
        dispatch_expires_at=None,
        stop_state=StopState.CONFIRMED if over else StopState.PENDING,
        stop_deadline=after(now, stop_s),
        stop_next_at=sent_at,
        hold_until=after(now, windows.report_s if over else stop_s),
    )


def fail(job: Job, event: Fail, now: datetime, windows: Windows) -> Job:
    ended = _end(job, State.FAILED, now, windows, cause=event.cause, error=event.error, ended=event.ended)
    return changed(ended, error_detail=event.detail)


def adopt(job: Job, event: Adopt, now: datetime, windows: Windows) -> Job:
    return changed(
        job,
        generation=event.new_generation,
        owner=event.owner,
        lease_expires_at=after(now, windows.lease_s),
        adoptions=job.adoptions + (not job.given_back),
        given_back=False,
    )


def release(job: Job, event: Release, now: datetime, windows: Windows) -> Job:
    return changed(job, lease_expires_at=now, given_back=True)


def lapse_cause(job: Job) -> tuple[str, str]:
    """Cause and text of a job whose owner is lost. What the agent said last is truer than the loss."""
    if job.op_state == OpState.ENDED and job.op_error:
        return str(job.op_error.get("cause") or Cause.INTERNAL), str(job.op_error.get("message") or "")
    if job.adoptions >= MAX_ADOPTIONS and not job.given_back:
        again = f"; {job.adoptions} owners before it were lost too, and a load that loses so many is not adopted again"
        return Cause.OWNER_LOST, OWNER_LOST + again
    return Cause.OWNER_LOST, OWNER_LOST


def lapse(job: Job, event: Lapse, now: datetime, windows: Windows) -> Job:
    cause, error = lapse_cause(job)
    return changed(_end(job, State.FAILED, now, windows, cause=cause, error=error), error_detail=job.op_error)


def requeue(job: Job, event: Requeue, now: datetime, windows: Windows) -> Job:
    return changed(
        job,
        state=State.QUEUED,
        generation=event.new_generation,
        owner=None,
        lease_expires_at=None,
        attempts=job.attempts - job.given_back,
        given_back=False,
        dispatch_window_s=windows.dispatch_s,
        dispatch_expires_at=after(now, windows.dispatch_s),
    )


def cancel(job: Job, event: Cancel, now: datetime, windows: Windows) -> Job:
    ended = _end(job, State.CANCELLED, now, windows, cause=Cause.CANCELLED, error=CANCELLED)
    return changed(ended, cancel_requested_at=now)


def new_incarnation(job: Job, event: NewIncarnation, now: datetime, windows: Windows) -> Job:
    return _end(job, State.FAILED, now, windows, cause=Cause.WORKER_RESTARTED, error=WORKER_RESTARTED, ended=True)


def confirm(job: Job, event: ConfirmStop, now: datetime, windows: Windows) -> Job:
    hold = after(now, windows.report_s)
    return changed(
        job,
        stop_state=StopState.CONFIRMED,
        stop_next_at=None,
        hold_until=min(job.hold_until or hold, hold),
    )


def stop_pause_s(job: Job, now: datetime, windows: Windows) -> float:
    """Seconds until the stop is sent again: 1 s doubling to a cap, which is higher once the hold is over."""
    cap = windows.stop_retry_max_s if job.hold_until is not None and job.hold_until > now else windows.stop_retry_late_s
    return float(min(2.0 ** min(job.stop_attempts, 16), cap))


def retry_stop(job: Job, event: RetryStop, now: datetime, windows: Windows) -> Job:
    pause_s = stop_pause_s(job, now, windows)
    return changed(job, stop_attempts=job.stop_attempts + 1, stop_next_at=after(now, pause_s))


def give_up_stop(job: Job, event: GiveUpStop, now: datetime, windows: Windows) -> Job:
    return changed(job, stop_state=StopState.NONE, stop_next_at=None)


def work_gone(job: Job, event: WorkGone, now: datetime, windows: Windows) -> Job:
    return changed(
        job,
        state=State.SUCCEEDED,
        finished_at=now,
        lease_expires_at=None,
        dispatch_window_s=None,
        dispatch_expires_at=None,
    )
