"""What may happen to a job, and what has to be told after it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localai.ids import JobId, NodeId, OwnerId, ProcessInstance
from localai.jobs.job import State
from localai.jobs.operation_rules import OpState, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Take:
    generation: int
    owner: OwnerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    generation: int
    owner: OwnerId
    node_id: NodeId
    order: Mapping[str, Any]
    #: The node's agent does not say that it reports operations.
    legacy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocate:
    """The agent did not claim the order: another node gets it, as another operation."""

    generation: int
    owner: OwnerId
    node_id: NodeId
    #: Drawn for it from the counter of the subject.
    op_generation: int
    order: Mapping[str, Any]
    legacy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resend:
    generation: int
    owner: OwnerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    op_generation: int
    node_id: NodeId
    incarnation: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One operation of an agent's full report."""

    op_generation: int
    node_id: NodeId
    incarnation: int
    op_state: OpState
    phase: Phase
    progress: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    file_index: int = 0
    files_total: int = 0
    message: str | None = None
    process_instance: ProcessInstance | None = None
    address: str | None = None
    identity: str | None = None
    error: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A full report of the claiming incarnation, made after the claim, does not list the operation."""

    op_generation: int
    node_id: NodeId
    incarnation: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    generation: int
    owner: OwnerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Work that the owner does itself moved."""

    generation: int
    owner: OwnerId
    bytes_done: int = 0
    bytes_total: int = 0
    file_index: int = 0
    files_total: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A node's work is done. ``revision`` and ``incarnation`` are what the locked subject and node rows say now."""

    generation: int
    owner: OwnerId
    revision: str | None
    incarnation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishWork:
    """Work that the owner did itself is done."""

    generation: int
    owner: OwnerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """``ended``: it is a fact that nothing of the attempt runs any more."""

    generation: int
    owner: OwnerId
    cause: str
    error: str
    ended: bool
    detail: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Another owner goes on with a load. A report younger than ``fresh_s`` proves that an agent works on it."""

    generation: int
    new_generation: int
    owner: OwnerId
    fresh_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The owner ends in good order and gives its lease back, where another one can go on."""

    generation: int
    owner: OwnerId
    fresh_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lapse:
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    generation: int
    new_generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class NewIncarnation:
    node_id: NodeId
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmStop:
    op_generation: int
    incarnation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryStop:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUpStop:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkGone:
    """What the job was to bring about is a fact: the process it is about has ended."""

    node_id: NodeId


Event = (
    Take
    | Place
    | Relocate
    | Resend
    | Claim
    | Reported
    | Missing
    | Renew
    | Progress
    | Finish
    | FinishWork
    | Fail
    | Adopt
    | Release
    | Lapse
    | Requeue
    | Cancel
    | NewIncarnation
    | ConfirmStop
    | RetryStop
    | GiveUpStop
    | WorkGone
)


@dataclass(frozen=True, slots=True)
class WakeControl:
    """Any control worker may have a step to take for the job."""

    job_id: JobId
    generation: int


@dataclass(frozen=True, slots=True)
class SendOrder:
    """The node's queue gets the name of the operation."""

    node_id: NodeId
    job_id: JobId
    op_generation: int


@dataclass(frozen=True, slots=True)
class SendStop:
    """The row is doomed and its stop is pending: whoever reads it may send the exact stop."""

    job_id: JobId
    generation: int


@dataclass(frozen=True, slots=True)
class TellProgress:
    job_id: JobId


@dataclass(frozen=True, slots=True)
class TellResult:
    job_id: JobId
    state: State


@dataclass(frozen=True, slots=True)
class TellRouting:
    """Routability changed; the version in the database has been raised."""


Command = WakeControl | SendOrder | SendStop | TellProgress | TellResult | TellRouting
