"""What a load asks of the configs and files of this frontend, and of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from localai.ids import JobId, NodeId, OwnerId
from localai.jobs.job import Job
from localai.jobs.operation_rules import StagedFile
from localai.jobs.ports import Intake
from localai.jobs.quarantine_rules import Streak
from localai.loads.eta_rules import LoadDurations
from localai.models.revision_rules import Evidence, Standing
from localai.placement.filters import NodeOffer
from localai.placement.rules import NoRoom, Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """What loading a model means, read from its config at this moment. Everything an order needs but the node."""

    model: str
    #: Hash of the config on disk.
    revision: str
    backend: str
    #: The ``Model`` string of LoadModel where nothing is staged; None where the node's path of the main file is it.
    identity: str | None
    #: The main file within the model's folder on the node.
    model_file: str | None
    #: What the node must have, with sizes and digests; None while bytes are missing here or digests not known yet.
    files: tuple[StagedFile, ...] | None
    #: ``ModelOptions`` as proto3 JSON with original field names, without Model, ModelFile, ModelPath.
    model_options: Mapping[str, Any]
    file_fields: Mapping[str, str]
    env: Mapping[str, str]
    #: When the config was written, if that is known.
    changed_at: datetime | None = None

    @property
    def size_bytes(self) -> int | None:
        """Size of all files; None where the backend fetches its own and nobody knows."""
        return sum(file.size for file in self.files) if self.files else None


class LoadPlans(Protocol):
    """The configs of this frontend."""

    def plan(self, model: str, revision: str | None) -> LoadPlan:
        """The plan of a model. Quick: reads no file's content.

        Reads the folder again first when the config it knows is not of ``revision``. Raises ModelNotFound, BadInput
        (the config cannot be used) or OperationFailed (file_missing, backend_unknown).
        """

    def holds(self, model: str, revision: str | None) -> bool:
        """Whether the folder, read again, has the config of this revision."""


class InstallProgress(Protocol):
    """How far the fetching and hashing of a model's files is."""

    @property
    def file(self) -> str: ...
    @property
    def file_index(self) -> int: ...
    @property
    def files_total(self) -> int: ...
    @property
    def bytes_done(self) -> int: ...
    @property
    def bytes_total(self) -> int: ...


class InstallsModels(Protocol):
    """Brings the bytes of models to this frontend."""

    def install(self, model: str, progress: Callable[[InstallProgress], None], cancelled: Callable[[], bool]) -> None:
        """Fetch what is missing and make every digest known, so that `plan` has files.

        Blocks for as long as the bytes take; doing it twice changes nothing. Raises ModelNotFound, BadInput,
        OperationFailed with its cause.
        """


class NotPlaced(StrEnum):
    """Why a placement was not made, where the nodes are not the reason."""

    REPLACED = "replaced"  # the row is not ours any more
    OTHER_REVISION = "other_revision"  # the subject has another revision than the job
    SLOT_TAKEN = "slot_taken"  # a replica row of this slot exists


class NotFinished(StrEnum):
    """Why a load that is READY was not committed as loaded."""

    REPLACED = "replaced"
    OTHER_REVISION = "other_revision"
    OTHER_INCARNATION = "other_incarnation"


@dataclass(frozen=True, slots=True)
class Quarantined:
    """No attempt was made: each node that serves has refused this revision again and again."""

    streaks: tuple[Streak, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a placement writes beside the node."""

    backend: str
    reserved_bytes: int
    order: Mapping[str, Any]


Choose = Callable[[Sequence[NodeOffer]], Placement | NoRoom]


class LoadMoves(Protocol):
    """The moves that only loads make. Each is one transaction; all raise StorageUnavailable."""

    def request(self, model: str, revision: str) -> tuple[Intake, Job] | Quarantined:
        """Attach to the live attempt, say that the model serves, obey the hold, or create an attempt on a free slot.

        None is created where every node that serves has a quarantine for this revision.
        """

    def place(self, job: Job, owner: OwnerId, choose: Choose, reservation: Reservation) -> Job | NoRoom | NotPlaced:
        """Choose a node and reserve slot, memory and disk on it, all in one transaction.

        ``choose`` is called with every node, then with the chosen one alone as it is under its lock, until it stands.
        """

    def relocate(self, job: Job, owner: OwnerId, choose: Choose) -> Job | NoRoom | NotPlaced:
        """Send an order that its node has not claimed to another node, with its reservation, as another operation.

        The node before is marked silent. ``choose`` is called as by `place`. NoRoom and NotPlaced change nothing;
        REPLACED may mean that the order was claimed.
        """

    def finish(self, job: Job, owner: OwnerId) -> Job | NotFinished:
        """Make the replica routable and end the job, or neither."""

    def revise(self, model: str, revision: str, evidence: Evidence | None = None) -> Standing:
        """Make this the revision of the model if `judge` says so; loaded replicas of others become unroutable.

        Without evidence it is set in any case.
        """


@dataclass(frozen=True, slots=True)
class LoadRow:
    """An attempt, and the live job that fetches its files where there is one."""

    job: Job
    install: Job | None


class LoadReads(Protocol):
    """Attempts as requests, waiters and ``load-status`` see them. All raise StorageUnavailable."""

    def current(self, model: str) -> LoadRow | None:
        """The live attempt, else the one whose hold lies ahead."""

    def attempt(self, job_id: JobId) -> LoadRow | None: ...

    def revisions(self, models: Sequence[str]) -> Mapping[str, str]:
        """The revisions in force of these models; one that no load has asked for is missing."""


class Quarantines(Protocol):
    """Failures in a row that keep models off nodes. Every method raises StorageUnavailable."""

    def list(self, *, model: str | None = None, node_id: NodeId | None = None) -> Sequence[Streak]:
        """The quarantines of a model, of a node, or all."""

    def blocking(self, model: str) -> Quarantined | None:
        """What keeps a model from every node that serves; None where one of them may still try."""

    def lift(self, model: str) -> int:
        """Forget every failure of a model; how many quarantines that ends."""


class History(Protocol):
    """What loads like one took."""

    def of(self, job: Job) -> Sequence[LoadDurations]:
        """Empty where nothing is known or it cannot be read: then there is no ETA."""
