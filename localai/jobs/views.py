"""How a job looks to people: the API, the command line and the pages show these fields under these names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from localai.jobs.cancel_rules import may_cancel
from localai.jobs.job import Job, State, StopState
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.operation_rules import Phase, process_key
from localai.jobs.ports import EventRow

#: A rate taken over less than this says nothing.
RATE_AFTER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job. Times are the database's; what is left of a window is counted from when the row was read."""

    id: str
    kind: str
    subject: str
    #: The subject for people: of a process that is to be stopped, which model it held.
    about: str
    slot: int
    state: str
    phase: str
    generation: int
    node_id: str | None
    node_name: str | None
    owner: str | None
    attempts: int
    adoptions: int
    lease_expires_in_s: float | None
    parent_id: str | None
    op_generation: int | None
    op_state: str | None
    bytes_done: int
    bytes_total: int
    file_index: int
    files_total: int
    message: str | None
    error_cause: str | None
    error: str | None
    error_detail: Mapping[str, Any] | None
    stop_state: str
    stop_deadline: datetime | None
    hold_until: datetime | None
    hold_in_s: float | None
    cancellable: bool
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    progress_rate: float | None

    def to_json(self) -> dict[str, Any]:
        """JSON values; times in RFC 3339."""
        return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One accepted move."""

    id: int
    job_id: str
    at: datetime
    event: str
    state: str
    phase: str | None
    generation: int
    op_generation: int | None
    actor: str | None
    node_id: str | None
    detail: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "at": rfc3339(self.at)}


def view(job: Job) -> JobView:
    """What people see of a job."""
    return JobView(
        id=job.id,
        kind=job.kind,
        subject=job.subject,
        about=about(job),
        slot=job.slot,
        state=job.state.value,
        phase=job.phase.value,
        generation=job.generation,
        node_id=job.node_id,
        node_name=job.node_name,
        owner=job.owner,
        attempts=job.attempts,
        adoptions=job.adoptions,
        lease_expires_in_s=seconds_left(job.lease_expires_at, job.read_at),
        parent_id=job.parent_id,
        op_generation=job.op_generation,
        op_state=job.op_state.value if job.op_state else None,
        bytes_done=job.bytes_done,
        bytes_total=job.bytes_total,
        file_index=job.file_index,
        files_total=job.files_total,
        message=job.message,
        error_cause=job.error_cause,
        error=job.error,
        error_detail=job.error_detail,
        stop_state=job.stop_state.value,
        stop_deadline=job.stop_deadline if job.stop_state == StopState.PENDING else None,
        hold_until=job.hold_until,
        hold_in_s=None if job.hold_left_s is None else round(job.hold_left_s, 3),
        cancellable=may_cancel(job),
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        progress_rate=progress_rate(job),
    )


def about(job: Job) -> str:
    """What a job is about, for people."""
    model = job.args.get("model") if job.kind == REPLICA_CLEANUP else None
    if not model:
        return job.subject
    return f"{process_key(str(model), int(job.args.get('slot') or 0))} (process {job.subject[:8]})"


def event_view(row: EventRow) -> JobEvent:
    return JobEvent(**asdict(row))


def progress_rate(job: Job) -> float | None:
    """Bytes per second of the phase that runs, None until a second of it has passed with bytes moved."""
    moving = job.state == State.RUNNING and (job.phase == Phase.STAGING or job.op_generation is None)
    if not moving or job.bytes_done <= 0 or job.phase_started_at is None:
        return None
    elapsed_s = (job.read_at - job.phase_started_at).total_seconds()
    return job.bytes_done / elapsed_s if elapsed_s >= RATE_AFTER_S else None


def seconds_left(until: datetime | None, now: datetime) -> float | None:
    """Seconds until a moment, negative when it has passed."""
    return None if until is None else round((until - now).total_seconds(), 3)


def rfc3339(moment: datetime) -> str:
    """A time as text with a zone."""
    return moment.isoformat().replace("+00:00", "Z")
