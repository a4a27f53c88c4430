"""What an agent and a frontend say to each other about one operation, and which answer a row gives.

An *operation* is the remote work of one attempt, named by job id and ``op_generation``. The values here are the bodies
of ``POST /api/node/<id>/jobs/<job>/claim`` and ``POST /api/node/<id>/report``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

from localai.errors import BadInput
from localai.inference import process_secrets
from localai.whole_numbers import BIGINT

V = TypeVar("V")

#: Operations and model processes that one report may name.
OPERATIONS_MOST, PROCESSES_MOST = 256, 1024
#: Fields of a report whose column is an integer; the others are bigints.
_INTEGERS = frozenset({"file_index", "files_total", "slot", "pid"})
_INTEGER = 2**31 - 1


class Cause(StrEnum):
    """Why a job failed. The text of an error is for people; this is for code, metrics and the retry policy."""

    BAD_CONFIG = "bad_config"  # the model's config cannot be used
    NO_NODE = "no_node"  # no node may hold the model
    NO_ROOM = "no_room"  # nodes exist, none has room
    MODEL_FETCH_FAILED = "model_fetch_failed"  # the frontend could not get the model's bytes
    DIGEST_MISMATCH = "digest_mismatch"  # bytes are not what was promised
    MODELS_FOLDER_UNAVAILABLE = "models_folder_unavailable"  # the frontend cannot read its models folder
    FILE_MISSING = "file_missing"  # a declared file is nowhere
    BACKEND_UNKNOWN = "backend_unknown"  # no gallery entry of that name
    BACKEND_UNAVAILABLE = "backend_unavailable"  # no build for this machine
    BACKEND_INSTALL_DISABLED = "backend_install_disabled"
    BACKEND_INSTALL_FAILED = "backend_install_failed"
    STAGING_FAILED = "staging_failed"
    STAGING_STALLED = "staging_stalled"
    DISK_FULL = "disk_full"
    NO_PORT = "no_port"
    START_FAILED = "start_failed"  # the process ended before it answered Health
    START_TIMEOUT = "start_timeout"
    LOAD_REFUSED = "load_refused"  # LoadModel answered success=false
    LOAD_TIMEOUT = "load_timeout"
    PROCESS_ENDED = "process_ended"  # the process ended during LoadModel
    BUDGET_OVER = "budget_over"  # the owner's bound for a phase
    OWNER_LOST = "owner_lost"  # the lease of the owner lapsed
    WORKER_RESTARTED = "worker_restarted"
    WORKER_SILENT = "worker_silent"
    OPERATION_LOST = "operation_lost"  # the worker does not know the operation
    OPERATION_KILLED = "operation_killed"  # the worker's watchdog ended it: nobody renewed it, or its deadline passed
    REVISION_CHANGED = "revision_changed"
    CANCELLED = "cancelled"
    CHILD_FAILED = "child_failed"
    INTERNAL = "internal"


class Phase(StrEnum):
    """Where a load is; the words of ``load-status``."""

    PENDING = "pending"  # choosing a node, or fetching the model's bytes to the frontend
    INSTALLING = "installing"
    STAGING = "staging"
    LOADING = "loading"


class OpState(StrEnum):
    """How far the operation is, in the words of the job row."""

    SENT = "sent"
    CLAIMED = "claimed"
    READY = "ready"  # LoadModel came back with success and the process lives
    ENDED = "ended"  # nothing of this operation runs any more


class Answer(StrEnum):
    """What the row says to the agent's report of one operation."""

    KEEP = "keep"  # may live kill TTL from the moment the report was sent
    WAIT = "wait"  # nothing changes; absence is not proof
    COMPLETE = "complete"  # the operation is over, its process stays if it is READY
    STOP = "stop"  # the group is to be ended, also when READY


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """One file the node must have before the start.

    ``path`` is relative to the model's own folder on the node. Sources are tried in order; one that begins with ``/``
    is a path below each of the frontend URLs the agent registers with, and ``{node_id}`` in it stands for the node.
    """

    path: str
    size: int
    sha256: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Everything the agent needs to run one operation; the answer to its claim. Durations are in seconds."""

    job_id: str
    op_generation: int
    kind: str
    model: str
    slot: int
    backend: str
    #: The string sent as ``ModelOptions.Model`` when nothing is staged, else None: then it is the staged path.
    identity: str | None
    #: Path of the main file within the model's folder, or None when the config names no file.
    model_file: str | None
    files: tuple[StagedFile, ...]
    #: ``ModelOptions`` as proto3 JSON with original field names, without Model, ModelFile, ModelPath.
    model_options: dict[str, Any]
    #: Fields of ModelOptions that name staged files: field -> path within the model's folder.
    file_fields: dict[str, str]
    env: dict[str, str]
    deadline_s: float
    install_timeout_s: float
    start_timeout_s: float
    load_timeout_s: float
    #: How the load timeout came about, for the error at the bound.
    load_timeout_reason: str
    stall_window_s: float

    def for_node(self, node_id: str) -> Order:
        """The same order with the sources of one node; it is written before the node is chosen."""
        files = tuple(
            replace(file, sources=tuple(source.replace("{node_id}", node_id) for source in file.sources))
            for file in self.files
        )
        return replace(self, files=files)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def to_row(self) -> dict[str, Any]:
        """The order as its job keeps it: of ``env`` only the names. A frontend adds the values at the claim."""
        body = {**self.to_json(), "env": {}}
        return {**body, "env_names": sorted(self.env)} if self.env else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Order:
        known = cls.__dataclass_fields__
        fields = {name: value for name, value in body.items() if name in known}
        fields["files"] = tuple(
            StagedFile(path=f["path"], size=f["size"], sha256=f["sha256"], sources=tuple(f["sources"]))
            for f in body["files"]
        )
        return cls(**fields)


def needs_env(args: Mapping[str, Any]) -> bool:
    """Whether the order in a job's arguments lacks values of ``env`` that its config has."""
    return bool((args.get("order") or {}).get("env_names"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationError:
    """Why an operation ended without success, in the agent's words."""

    cause: str
    message: str
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """One operation as the agent sees it. Counters are bytes and files of the current phase."""

    job_id: str
    op_generation: int
    op_state: OpState
    phase: Phase
    bytes_done: int = 0
    bytes_total: int = 0
    file_index: int = 0
    files_total: int = 0
    message: str | None = None
    #: A number that grows whenever work moved (bytes received, bytes hashed, a phase entered).
    progress: int = 0
    process_instance: str | None = None
    address: str | None = None
    #: The very Model string LoadModel got; every later call carries it as ModelIdentity.
    identity: str | None = None
    error: OperationError | None = None
    #: Secret of a process that is READY, sent with each call to it. None from an earlier agent.
    process_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """One live model process of the agent's table."""

    process_instance: str
    model: str
    slot: int
    job_id: str
    op_generation: int
    address: str
    pid: int
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything one incarnation of an agent runs at one moment. Rows ignore a ``seq`` that is not higher."""

    incarnation: int
    seq: int
    operations: tuple[OperationReport, ...] = ()
    processes: tuple[ProcessReport, ...] = ()

    def to_json(self) -> dict[str, Any]:
        body = asdict(self)
        for operation in body["operations"]:
            if operation["process_secret"] is None:
                del operation["process_secret"]  # a frontend of an earlier version knows no such field
        return body

    def addresses(self) -> Iterator[tuple[str, str | None]]:
        """Each address that the report names, with the name of its field."""
        for place, operation in enumerate(self.operations):
            yield f"operations[{place}].address", operation.address
        for place, process in enumerate(self.processes):
            yield f"processes[{place}].address", process.address

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Report:
        """Raises BadInput with the field that cannot be used."""
        try:
            return cls(
                incarnation=_number(body, "incarnation"),
                seq=_number(body, "seq"),
                operations=tuple(map(_operation, _items(body, "operations", OPERATIONS_MOST))),
                processes=tuple(map(_process, _items(body, "processes", PROCESSES_MOST))),
            )
        except KeyError as error:
            raise BadInput(str(error.args[0]), None, "a value") from None
        except (TypeError, ValueError) as error:
            raise BadInput("report", str(error), "a report of this version") from None


def _items(body: Mapping[str, Any], name: str, most: int) -> Sequence[Mapping[str, Any]]:
    """The list of a field, whose length is checked before its items are looked at. Raises BadInput."""
    found = body.get(name, ())
    if not isinstance(found, list | tuple):
        raise BadInput(name, found, "a list")
    if len(found) > most:
        raise BadInput(name, f"{len(found)} {name}", f"at most {most} {name} in one report")
    return found


def _number(body: Mapping[str, Any], name: str) -> int:
    """The whole number of a field, which a bigint column can hold. Raises BadInput, KeyError."""
    found = body[name]
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= BIGINT or found % 1:
        raise BadInput(name, found, "a whole number from 0")
    return int(found)


def _operation(item: Mapping[str, Any]) -> OperationReport:
    fields = _known(OperationReport, item)
    fields["op_state"] = OpState(item["op_state"])
    fields["phase"] = Phase(item["phase"])
    if item.get("error"):
        fields["error"] = _typed(OperationError(**item["error"]))
    if not process_secrets.is_usable(item.get("process_secret")):
        text = f"process_secret: the value cannot be used and is not shown; accepted: {process_secrets.FORM}"
        raise BadInput("process_secret", None, process_secrets.FORM, text)
    return _typed(OperationReport(**fields))


def _known(kind: Any, item: Mapping[str, Any]) -> dict[str, Any]:
    """What this version knows of a value: a later agent may say more."""
    return {name: value for name, value in dict(item).items() if name in kind.__dataclass_fields__}


def _process(item: Mapping[str, Any]) -> ProcessReport:
    return _typed(ProcessReport(**_known(ProcessReport, item)))


@cache
def _types(kind: type) -> dict[str, tuple[type, ...]]:
    """The types each field may have."""
    return {name: get_args(hint) or (hint,) for name, hint in get_type_hints(kind).items()}


def _typed(value: V) -> V:
    """The value itself, when each of its fields is of the type the class names. Raises BadInput with the field."""
    kind: type = type(value)
    for name, accepted in _types(kind).items():
        found = getattr(value, name)
        # JSON has one kind of number for people, and true is none of them.
        if not isinstance(found, accepted) or (isinstance(found, bool) and bool not in accepted):
            raise BadInput(name, found, " or ".join(one.__name__ for one in accepted))
        most = _INTEGER if name in _INTEGERS else BIGINT
        if isinstance(found, int) and not -most <= found <= most:
            raise BadInput(name, found, f"a whole number up to {most}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationAnswer:
    job_id: str
    op_generation: int
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """The frontend's answer to a report. ``stop_processes`` are instances a committed cleanup job names."""

    operations: tuple[OperationAnswer, ...] = ()
    stop_processes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ReportAnswer:
        return cls(
            operations=tuple(
                OperationAnswer(
                    job_id=item["job_id"], op_generation=item["op_generation"], answer=Answer(item["answer"])
                )
                for item in body.get("operations", ())
            ),
            stop_processes=tuple(body.get("stop_processes", ())),
        )


def answer_for(state: str | None, *, lease_valid: bool, op_matches: bool) -> Answer:
    """Which answer a row gives (job protocol, section 5.6). ``state`` is None where there is no row."""
    if state is None or not op_matches:
        return Answer.WAIT
    if state == "succeeded":
        return Answer.COMPLETE
    if state in ("failed", "cancelled"):
        return Answer.STOP
    return Answer.KEEP if lease_valid else Answer.WAIT


def operation_key(job_id: str, op_generation: int) -> tuple[str, int]:
    return (job_id, op_generation)


def process_key(model: str, slot: int) -> str:
    """``<model>#<slot>``: what the agent keeps at most one process for."""
    return f"{model}#{slot}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """An exact stop. Any given field that does not match stops nothing."""

    job_id: str
    op_generation: int
    #: Left out for a legacy node, which would stop whatever has the name.
    process_key: str | None = None
    address: str | None = None
    process_instance: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StopRequest:
        return cls(**body)


class StopOutcome(StrEnum):
    """What the agent did with an exact stop."""

    TERMINATED = "terminated"
    ALREADY_GONE = "already_gone"
    NOT_MINE = "not_mine"  # a field did not match; nothing was stopped
    FINISHED = "finished"  # the operation is complete: only a stop that names the instance ends a serving process


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer:
    outcome: StopOutcome
    incarnation: int
    terminated: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return {"outcome": self.outcome.value, "incarnation": self.incarnation, "terminated": list(self.terminated)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StopAnswer:
        return cls(
            outcome=StopOutcome(body["outcome"]),
            incarnation=int(body["incarnation"]),
            terminated=tuple(body.get("terminated", ())),
        )
