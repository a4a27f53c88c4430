"""Which errors exist, and what may be done about each.

    LocalAIError
    ├── BadSetting            start refused: a setting cannot be used
    ├── StartRefused          start refused: the machine is not as needed (port taken, folder unusable)
    ├── BadInput              the caller's fault; names the field, the value and what would be accepted
    │   ├── BodyTooLarge
    │   ├── BodyTooSlow
    │   └── RequestTooComplex     the structure of a body would cost too much, whatever its size
    ├── NotAuthenticated      no key, or a wrong one
    ├── TooManyLogins         too many wrong keys from one address
    ├── NotAuthorized         a key that may not do this
    ├── NotFound              nothing of that name or id
    │   ├── ModelNotFound
    │   └── NodeRemoved           an agent that calls for a node that an administrator removed
    ├── ModelsFolderUnavailable   the models folder cannot be read now; nothing is known about what is in it
    ├── ModelLoading          the load goes on; ask again
    ├── ModelHeld             an attempt failed and its hold has not ended; carries the real cause
    │   └── ModelQuarantined      attempts failed again and again on every node; somebody has to do something
    ├── Replaced              a write touched no row: somebody else owns the attempt now; read the row, believe only it
    │   └── NotTheNextLife    a registration that names another life than the node's newest
    ├── NotPossible           what is there does not allow it now; the text says what would
    │   ├── AttemptLive           a retry of a load while an attempt goes on
    │   ├── NodeNameTaken         a registration under the name of a node whose own worker reports
    │   ├── JobEnded              a cancel of a job that ended by itself
    │   ├── NotCancellable        a cancel of a job whose kind goes on until it is done
    │   └── NotForced             a force of a job whose kind waits for no request
    ├── StorageUnavailable    the database refused or did not answer
    │   └── RowsHeld              others held the same rows for too long; the transaction was undone and may be repeated
    ├── RevisionAbsent        this frontend has no config of the revision that a claimed order names; another may
    ├── NoRoute               nobody listens for this node: it is absent
    ├── NodeQuiet             the node did not answer within the limit; nothing is known
    ├── NodeUnreachable       the bus or network gave no answer; nothing is known about the node
    ├── WorkerRefused         the worker's own word
    ├── BackendError          a model process answered with an error
    │   ├── BackendUnavailable    the process cannot have read the request, or refused it; another may serve it
    │   │   └── ConnectTimeout        it did not accept a connection within the limit
    │   ├── BackendCrashed        its connection broke while it had the request, which is never sent again
    │   ├── ModelGone             the process runs, but holds no model
    │   ├── WrongModel            the process holds another model
    │   ├── BackendBusy           the process is full; it is not dead
    │   ├── BackendDeadline       the call took longer than its deadline
    │   │   ├── FirstByteTimeout      no answer came within the limit of the call
    │   │   └── IdleTimeout           an answer stopped, and nothing more came within the limit
    │   ├── ModelUnloaded         the call was cut because its process is stopped
    │   ├── BackendUnimplemented  the process does not offer this call
    │   └── BackendRejected       the process says that the request cannot be served (too long, wrong format)
    ├── CallCancelled         the client left; nobody reads the answer
    └── OperationFailed       work on a node or in a job failed with a typed cause (`localai.jobs.rules.Cause`)

The class docstring is the default message, facts are attributes, and no code reads an error's text to decide.
HTTP status, ``error.code`` and ``Retry-After`` of each stand in one table in ``web/errors.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class LocalAIError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None, **facts: Any) -> None:
        self.facts = facts
        self.message = message or (type(self).__doc__ or "").strip().format_map(_Facts(facts))
        super().__init__(self.message)


class _Facts(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"


class BadSetting(LocalAIError):
    """A setting cannot be used."""

    def __init__(self, variable: str, value: str, accepted: str) -> None:
        self.variable, self.value, self.accepted = variable, value, accepted
        super().__init__(f"{variable}={value!r} cannot be used; accepted: {accepted}")


class StartRefused(LocalAIError):
    """The process cannot start."""


#: Characters of a value, and of the name of a field, in the text of an error.
_SHOWN, _NAMED = 80, 200


def shown(value: object) -> str:
    """The beginning of a value's repr, which costs no more if the value is large."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > _SHOWN:
            return text[: _SHOWN - 3] + "..."
    return text


def _pieces(value: object) -> Iterator[str]:
    """The repr of a value of JSON, a piece at a time."""
    if isinstance(value, str):
        yield repr(value[: _SHOWN + 1])
    elif isinstance(value, list):
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(item)
        yield "]"
    elif isinstance(value, dict):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield ", " if place else ""
            yield from _pieces(key)
            yield ": "
            yield from _pieces(item)
        yield "}"
    else:
        yield repr(value)


class BadInput(LocalAIError):
    """The request cannot be used."""

    def __init__(self, field: str, value: object, accepted: str, message: str | None = None) -> None:
        field = field if len(field) <= _NAMED else field[: _NAMED - 3] + "..."
        self.field, self.value, self.accepted = field, value, accepted
        super().__init__(message or f"{field}: {shown(value)} cannot be used; accepted: {accepted}")


class BodyTooLarge(BadInput):
    """The request body is larger than the limit."""

    def __init__(self, limit_bytes: int, *, setting: str = "") -> None:
        self.limit_bytes = limit_bytes
        limit = f"{setting} sets the limit" if setting else "this route takes no larger one"
        super().__init__("body", "", "", f"the request body is larger than {limit_bytes} bytes; {limit}")


class BodyTooSlow(BadInput):
    """The request body did not arrive in time."""

    def __init__(self, limit_s: float, bytes_per_s: int) -> None:
        accepted = f"the whole body within {limit_s:g} seconds, or at least {bytes_per_s} bytes a second"
        super().__init__("body", "", accepted, f"body: it did not arrive in time; accepted: {accepted}")


class RequestTooComplex(BadInput):
    """The structure of the request body is more than the limit."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__("body", "", "", f"body: the request is too complex; accepted: at most {most} {what}")


class NotAuthenticated(LocalAIError):
    """A key is required: send it as `Authorization: Bearer <key>`."""


class TooManyLogins(LocalAIError):
    """Too many logins failed."""

    def __init__(self, wait_s: float) -> None:
        self.retry_after_s = int(wait_s) + 1
        super().__init__(f"too many logins failed; the next one is looked at in {self.retry_after_s} seconds")


class JoinTokenRefused(NotAuthenticated):
    """The join token does not open this registration."""


class NotAuthorized(LocalAIError):
    """This key may not do that."""


class NotFound(LocalAIError):
    """Nothing of that name."""


class ModelNotFound(NotFound):
    """The model does not exist."""

    def __init__(self, model: str) -> None:
        self.model = model
        super().__init__(f"the model {model!r} does not exist; GET /v1/models lists those that do")


class NodeRemoved(NotFound):
    """This node was removed from the cluster; start its worker again to join as a new node."""


class ModelsFolderUnavailable(LocalAIError):
    """The models folder cannot be read."""


class ModelLoading(LocalAIError):
    """The model is loading."""

    def __init__(self, message: str, loading: dict[str, Any], retry_after_s: int) -> None:
        self.loading, self.retry_after_s = loading, retry_after_s
        super().__init__(message)


class ModelHeld(LocalAIError):
    """The last load of the model failed, and the model is held."""

    def __init__(self, message: str, loading: dict[str, Any], retry_after_s: int) -> None:
        self.loading, self.retry_after_s = loading, retry_after_s
        super().__init__(message)


class ModelQuarantined(ModelHeld):
    """Loads of the model have failed again and again on every node that may hold it."""


class Replaced(LocalAIError):
    """You were replaced: another owner or attempt has taken this over."""


class NotTheNextLife(Replaced):
    """The newest life of this node is number {incarnation}; a registration that names another comes too late."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        super().__init__(
            f"the newest life of this node is number {incarnation}; a registration that names another comes too late"
        )


class NotPossible(LocalAIError):
    """What is there does not allow this now."""


class AttemptLive(NotPossible):
    """A load of the model goes on."""

    def __init__(self, model: str, job_id: str) -> None:
        self.current_job_id = job_id
        super().__init__(f"a load of model {model} goes on: job {job_id}; cancel it first, or wait for its end")


class NodeNameTaken(NotPossible):
    """Another worker reports under this node name."""


class TooManyPendingNodes(LocalAIError):
    """Too many nodes wait for approval."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} nodes wait for approval, and no more may: approve the ones that you know "
            "(`localai nodes approve NAME`) and remove the others (`localai nodes remove NAME`)"
        )


class JobEnded(NotPossible):
    """The job has ended by itself."""


class NotCancellable(NotPossible):
    """A job of this kind cannot be cancelled."""


class NotForced(NotPossible):
    """A job of this kind waits for no request."""


class StorageUnavailable(LocalAIError):
    """The database cannot be reached."""


class RowsHeld(StorageUnavailable):
    """Others held the same rows of the database for too long; nothing was changed."""


class RevisionAbsent(LocalAIError):
    """This frontend has no config of that revision."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"the models folder of this frontend has no config of model {model!r} in the revision of this load"
        )


class NoRoute(LocalAIError):
    """Nobody listens for node {node_id}."""


class NodeQuiet(LocalAIError):
    """Node {node_id} has not answered within {timeout_s} s."""


class NodeUnreachable(LocalAIError):
    """The network gave no answer; nothing is known about node {node_id}."""


class WorkerRefused(LocalAIError):
    """The worker answered: {reason}."""


class BackendError(LocalAIError):
    """The model process answered with an error."""


class BackendUnavailable(BackendError):
    """The model process cannot be reached, or does not take the request."""


class ConnectTimeout(BackendUnavailable):
    """The model process did not accept a connection within the limit."""


class BackendCrashed(BackendError):
    """The model process ended, or its connection broke, while it had the request; the request was not sent again."""


class ModelGone(BackendError):
    """The model process holds no model."""


class WrongModel(BackendError):
    """The model process holds another model."""


class BackendBusy(BackendError):
    """The model process is full."""


class BackendDeadline(BackendError):
    """The model process took longer than the deadline of the call."""


class FirstByteTimeout(BackendDeadline):
    """The model process gave no answer within the limit of the call."""


class IdleTimeout(BackendDeadline):
    """The model process stopped in the middle of its answer."""


class ModelUnloaded(BackendError):
    """The request was cut: its replica is stopped, because the model was unloaded or edited, or its node is drained."""


class BackendUnimplemented(BackendError):
    """The model process does not offer this call."""


class BackendRejected(BackendError):
    """The model process cannot serve this request."""


class CallCancelled(LocalAIError):
    """The client left before the answer was complete."""


class OperationFailed(LocalAIError):
    """The operation failed."""

    def __init__(self, cause: str, message: str, *, stderr_tail: str = "") -> None:
        self.cause, self.stderr_tail = cause, stderr_tail
        super().__init__(message)
