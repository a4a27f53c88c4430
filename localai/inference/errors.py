"""What the status of a failed call to a model process means for the router.

The processes are written by others too, and the protocol they share tells two of its cases only in the text of the
status: `model not loaded` and `model identity mismatch`. This is the one place that reads such a text.
"""

from __future__ import annotations

from collections.abc import Callable

import grpc

from localai.errors import (
    BackendBusy,
    BackendCrashed,
    BackendDeadline,
    BackendError,
    BackendRejected,
    BackendUnavailable,
    BackendUnimplemented,
    ModelGone,
    WrongModel,
)

#: What a process says that runs but holds no model, whatever status it chose.
MODEL_NOT_LOADED = "model not loaded"
#: What the stubs of the protocol say for a call that a process lacks; it tells people nothing.
LACKS_CALL = "method not implemented!"
#: What gRPC says for a call that found no connection: not one byte of it left this process.
NEVER_SENT = "failed to connect to all addresses"
#: What tells a wrong model from the other uses of NOT_FOUND, such as "no face in the image".
IDENTITY_MISMATCH = "model identity mismatch"

_BY_STATUS: dict[grpc.StatusCode, type[BackendError]] = {
    grpc.StatusCode.FAILED_PRECONDITION: ModelGone,
    grpc.StatusCode.UNIMPLEMENTED: BackendUnimplemented,
    grpc.StatusCode.RESOURCE_EXHAUSTED: BackendBusy,
    grpc.StatusCode.DEADLINE_EXCEEDED: BackendDeadline,
    grpc.StatusCode.UNAVAILABLE: BackendUnavailable,
    grpc.StatusCode.CANCELLED: BackendUnavailable,
    grpc.StatusCode.INVALID_ARGUMENT: BackendRejected,
    grpc.StatusCode.OUT_OF_RANGE: BackendRejected,
}

#: What gRPC says for a broken connection, and what a process may say as well that goes on.
_BROKEN_OR_SAID = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

#: Longest text of a process that is passed on.
_TEXT_LIMIT = 2000


def from_status(status: grpc.StatusCode, text: str) -> BackendError:
    """The error that a status and its text stand for."""
    kind = _BY_STATUS.get(status, BackendError)
    lowered = text.lower()
    if MODEL_NOT_LOADED in lowered:
        kind = ModelGone
    elif status is grpc.StatusCode.NOT_FOUND and IDENTITY_MISMATCH in lowered:
        kind = WrongModel
    return kind(_message(kind, text), status=status.name)


def from_broken_call(status: grpc.StatusCode, text: str, answers: Callable[[], bool]) -> BackendError:
    """The error of a call that was started.

    `answers` says whether the connection of the call still stands and the process answers on it. It is asked if the
    status may stand for a broken connection: then a process that does not answer may have ended because of the call.
    """
    found = from_status(status, text)
    if type(found) is not BackendUnavailable or status not in _BROKEN_OR_SAID or NEVER_SENT in text or answers():
        return found
    return BackendCrashed(_message(BackendCrashed, text), status=status.name)


def _message(kind: type[BackendError], text: str) -> str:
    meaning = (kind.__doc__ or "").strip()
    text = "" if text.lower().endswith(LACKS_CALL) else text.strip()[:_TEXT_LIMIT]
    return f"{meaning[:-1]}: {text}" if text else meaning
