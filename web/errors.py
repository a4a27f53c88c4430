"""What does a caller see of an error: one table from the class of the error to status, code, type and Retry-After.

`docs/reference/errors.md` is made from it. No text of an error decides anything, and no text of the database, of the
queue or of a fault of ours reaches a caller.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from localai import errors
from localai.errors import LocalAIError
from localai.generated_pages import page_command
from localai.jobs.operations import WorkerMustDrop
from web.worker_http import WorkerSilent


class ModelDisabled(errors.NotAuthorized):
    """The model is switched off in its config."""


class UnusableNumber(errors.BadInput):
    """A number that can be read and means nothing; some dialects answer it with a status of its own."""


class WriteWithoutToken(errors.NotAuthorized):
    """A write with the cookie of a browser needs the header X-CSRF-Token; GET /api/auth/status shows its value."""


@dataclass(frozen=True, slots=True)
class Row:
    """How one class of error is shown."""

    status: int
    code: str
    type: str
    meaning: str
    #: Seconds a caller should wait; None where repeating the same request is no use, or the error brings its own.
    retry_after_s: int | None = None
    #: Whether the error's own text is shown; otherwise only the docstring of its class.
    own_text: bool = True
    #: Whether a stream that has begun ends with this code; others end with ``server_error``.
    kept_in_stream: bool = False


_INVALID = "invalid_request_error"
_UNAVAILABLE = "service_unavailable"

TABLE: dict[type[LocalAIError], Row] = {
    errors.BadInput: Row(
        400, "invalid_value", _INVALID, "The body or the query cannot be used; `param` names the field."
    ),
    UnusableNumber: Row(422, "invalid_value", _INVALID, "Rerank: `top_n` is below 1."),
    errors.BodyTooLarge: Row(
        413,
        "request_too_large",
        _INVALID,
        "The body is larger than `LOCALAI_UPLOAD_LIMIT`, or than its route takes ([limits](limits.md)).",
    ),
    errors.BodyTooSlow: Row(
        408, "request_timeout", _INVALID, "The body did not arrive in time ([limits](limits.md)); the connection ends."
    ),
    errors.RequestTooComplex: Row(
        413, "request_too_complex", _INVALID, "The body holds more than its structure may ([limits](limits.md))."
    ),
    errors.NotAuthenticated: Row(401, "invalid_api_key", _INVALID, "No key, or a wrong one."),
    errors.TooManyLogins: Row(
        429,
        "too_many_logins",
        "rate_limit_error",
        "Ten logins of this address failed within a minute, or ten of all addresses and one of this address.",
    ),
    errors.JoinTokenRefused: Row(
        401,
        "join_token_refused",
        _INVALID,
        "A worker registers with a join token that has expired, is for another name, or is another worker's.",
    ),
    errors.NotAuthorized: Row(403, "not_allowed", "authorization_error", "The key may not do this."),
    WriteWithoutToken: Row(
        403,
        "csrf_token_missing",
        "authorization_error",
        "A write whose key came as a cookie, without the `X-CSRF-Token` of its session.",
    ),
    ModelDisabled: Row(403, "model_disabled", _INVALID, "The model's config says `disabled: true`."),
    errors.NotFound: Row(404, "not_found", "not_found_error", "Nothing of that name, id or address."),
    errors.ModelNotFound: Row(404, "model_not_found", _INVALID, "No config of that name; `GET /v1/models` lists them."),
    errors.NodeRemoved: Row(
        404, "node_removed", "not_found_error", "An agent called for a node that an administrator removed; it ends."
    ),
    errors.ModelsFolderUnavailable: Row(
        503,
        "models_folder_unavailable",
        _UNAVAILABLE,
        "The models folder cannot be read, so whether the model exists is not known. Loaded models answer.",
        10,
    ),
    errors.ModelLoading: Row(
        503,
        "model_loading",
        "model_loading",
        "The load goes on and takes longer than `LOCALAI_MODEL_LOAD_WAIT`; `loading` says how far it is. "
        "`Retry-After` is 5 to 300 seconds.",
    ),
    errors.ModelHeld: Row(
        503,
        "model_load_failed",
        "model_load_failed",
        "The last load failed with this cause. `Retry-After` is when the next one may begin.",
    ),
    errors.ModelQuarantined: Row(
        503,
        "model_quarantined",
        "model_load_failed",
        "The last loads failed on every node that may hold the model, with one cause; `loading.quarantined` has them. "
        "No attempt is made until the config changes or somebody asks for a retry.",
    ),
    errors.AttemptLive: Row(
        409, "attempt_live", "conflict_error", "A retry while a load goes on; `current_job_id` is the attempt."
    ),
    errors.Replaced: Row(409, "replaced", "conflict_error", "Somebody else owns this now; read it again."),
    errors.NotTheNextLife: Row(
        409, "not_the_next_life", "conflict_error", "A registration of an agent that came late; it asks again."
    ),
    errors.NodeNameTaken: Row(
        409,
        "node_name_taken",
        "conflict_error",
        "A worker registers under the name of a node whose own worker reports; the text has both addresses.",
    ),
    errors.TooManyPendingNodes: Row(
        429,
        "too_many_pending_nodes",
        "rate_limit_error",
        "A worker registers under a new name while 1,000 nodes wait for approval.",
        30,
    ),
    errors.NotPossible: Row(409, "not_possible", "conflict_error", "What is there does not allow it now."),
    errors.JobEnded: Row(409, "job_ended", "conflict_error", "A cancel of a job that has succeeded or failed."),
    errors.NotCancellable: Row(
        409, "not_cancellable", "conflict_error", "A cancel of a job whose kind goes on until it is done."
    ),
    errors.NotForced: Row(
        409, "not_forced", "conflict_error", "A force of a job that is no unload and no drain: it waits for no request."
    ),
    WorkerMustDrop: Row(409, "refused", "conflict_error", "An agent claimed an operation that must not start."),
    errors.StorageUnavailable: Row(
        503, "storage_unavailable", _UNAVAILABLE, "The database refused or did not answer in time.", 5, own_text=False
    ),
    errors.RowsHeld: Row(
        503,
        "storage_busy",
        _UNAVAILABLE,
        "Others held the same rows of the database, ten times in a row; nothing was changed.",
        5,
        own_text=False,
    ),
    errors.RevisionAbsent: Row(
        503,
        "revision_absent",
        _UNAVAILABLE,
        "An agent claimed a load of a config that this frontend does not have now; it asks the next frontend.",
        5,
    ),
    errors.NoRoute: Row(503, "node_absent", _UNAVAILABLE, "No agent listens for the node.", 10),
    errors.NodeQuiet: Row(504, "node_quiet", _UNAVAILABLE, "The agent did not answer in time; nothing is known.", 10),
    errors.NodeUnreachable: Row(
        503, "node_unreachable", _UNAVAILABLE, "The bus gave no answer; nothing is known about the node.", 10
    ),
    WorkerSilent: Row(
        502, "worker_silent", "server_error", "The worker's HTTP server does not answer; nothing is known.", 10
    ),
    errors.WorkerRefused: Row(502, "worker_refused", "server_error", "The agent's own word."),
    errors.BackendUnavailable: Row(
        503, "backend_unavailable", _UNAVAILABLE, "No connection to the model process could be used, twice.", 5
    ),
    errors.BackendCrashed: Row(
        502,
        "backend_crashed",
        "server_error",
        "The model process ended, or its connection broke, while it had the request; it was not sent again.",
        kept_in_stream=True,
    ),
    errors.ModelGone: Row(503, "backend_unavailable", _UNAVAILABLE, "The model process lost its model, twice.", 5),
    errors.WrongModel: Row(503, "backend_unavailable", _UNAVAILABLE, "The process holds another model, twice.", 5),
    errors.BackendBusy: Row(503, "backend_busy", _UNAVAILABLE, "The model process is full.", 5),
    errors.BackendDeadline: Row(
        504, "backend_timeout", "server_error", "The model process says that the call took too long."
    ),
    errors.ConnectTimeout: Row(
        504, "connect_timeout", "server_error", "The model process accepted no connection in time, twice.", 5
    ),
    errors.FirstByteTimeout: Row(
        504,
        "first_byte_timeout",
        "server_error",
        "No answer within `LOCALAI_FIRST_BYTE_TIMEOUT` or the model's `timeouts.first_byte`; the call was cancelled.",
        kept_in_stream=True,
    ),
    errors.IdleTimeout: Row(
        504,
        "idle_timeout",
        "server_error",
        "A streamed answer stopped for `LOCALAI_IDLE_TIMEOUT` or the model's `timeouts.idle`; the call was cancelled.",
        kept_in_stream=True,
    ),
    errors.ModelUnloaded: Row(
        503,
        "model_unloaded",
        _UNAVAILABLE,
        "The request was cut: its replica was unloaded with force, or has waited for it for `LOCALAI_UNLOAD_TIMEOUT`.",
        kept_in_stream=True,
    ),
    errors.BackendUnimplemented: Row(
        400, "not_offered", _INVALID, "The model's backend does not offer this call, such as a chat with an encoder."
    ),
    errors.BackendRejected: Row(
        400, "backend_rejected", _INVALID, "The backend cannot serve this request; its own text."
    ),
    errors.BackendError: Row(500, "server_error", "server_error", "The backend answered with an error; its own text."),
    errors.CallCancelled: Row(499, "client_closed_request", _INVALID, "The client left; nobody reads this."),
    errors.OperationFailed: Row(500, "operation_failed", "server_error", "Work on a node or in a job failed."),
    errors.BadSetting: Row(500, "server_error", "server_error", "A setting cannot be used.", own_text=False),
    errors.StartRefused: Row(500, "server_error", "server_error", "The process cannot start.", own_text=False),
    LocalAIError: Row(
        500, "server_error", "server_error", "A fault of ours; the log has it by request id.", own_text=False
    ),
}

#: What is shown for anything that is no error of ours.
FAULT = TABLE[LocalAIError]


def row_of(error: LocalAIError) -> Row:
    """The row of an error's class, or of the nearest class above it."""
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def text_of(error: LocalAIError) -> str:
    """What a caller may read of an error."""
    if row_of(error).own_text:
        return error.message
    return (type(error).__doc__ or LocalAIError.__doc__ or "").strip()


def retry_after_of(error: LocalAIError) -> int | None:
    """Whole seconds for the `Retry-After` header; None where there is none."""
    own = getattr(error, "retry_after_s", None)
    return row_of(error).retry_after_s if own is None else max(1, int(own))


def openai_body(error: LocalAIError, *, admin: bool = False) -> dict[str, Any]:
    """The error envelope of the OpenAI API; `admin` routes say more exactly what a missing key means."""
    row = row_of(error)
    kind = "authentication_error" if admin and isinstance(error, errors.NotAuthenticated) else row.type
    inner: dict[str, Any] = {"message": text_of(error), "type": kind, "code": row.code}
    inner["param"] = error.field if isinstance(error, errors.BadInput) and error.field else None
    body: dict[str, Any] = {"error": inner}
    if isinstance(error, errors.ModelLoading | errors.ModelHeld):
        body["loading"] = error.loading
    if isinstance(error, errors.AttemptLive):
        body["current_job_id"] = error.current_job_id
    return body


def node_admin_body(error: LocalAIError) -> dict[str, Any]:
    """The envelope of `/api/nodes`: the code is the status."""
    body = openai_body(error, admin=True)
    row = row_of(error)
    if row.status not in (401, 403):
        body["error"] |= {"type": "node_error", "code": row.status}
    return body


def node_body(error: LocalAIError) -> dict[str, Any]:
    """What agents read: a text; the state of a refused claim's job, the newest life for a late registration, the code
    of a refused one.
    """
    body: dict[str, Any] = {"error": text_of(error)}
    if isinstance(error, errors.NodeRemoved):
        body["removed"] = True
    if isinstance(error, WorkerMustDrop):
        body["state"] = error.state
    if isinstance(error, errors.NotTheNextLife):
        body["incarnation"] = error.incarnation
    if isinstance(error, errors.NodeNameTaken):
        body["code"] = row_of(error).code
    return body


def stream_body(error: LocalAIError) -> dict[str, Any]:
    """The event of a stream that has begun: its status is 200 already."""
    row = row_of(error)
    code = row.code if row.kept_in_stream else "server_error"
    return {"error": {"message": text_of(error), "type": "server_error", "code": code, "param": None}}


def errors_page() -> str:
    """The text of `docs/reference/errors.md`."""
    lines = [
        "# Errors",
        "",
        "Made by `python -m web.errors --write docs/reference/errors.md`; do not edit. The body is the envelope of the",
        'OpenAI API, `{"error": {"message", "type", "code", "param"}}`; `model_loading` and `model_load_failed` add a',
        "top-level `loading` object, the same as `GET /api/models/{id}/load-status`. Routes below `/api/nodes` put the",
        "status into `code` and `node_error` into `type`; routes below `/api/node/` answer agents with",
        '`{"error": "<text>"}`. Administrator routes give a missing or wrong key the type `authentication_error`.',
        "A method that a route does not have is a 405 with code `method_not_allowed`. A request that the HTTP server",
        "refuses has the same envelope and type `invalid_request_error`: 400 `bad_request` for broken HTTP, 414",
        "`uri_too_long` for a request line of more than 4,094 bytes, 431 `request_header_fields_too_large`, 501.",
        "Every answer carries `X-Request-Id`, and the log has the request under it. `Retry-After` is in whole seconds.",
        "",
        "A stream that has begun ends with one event that holds an envelope of type and code `server_error`, then",
        "`data: [DONE]`; `first_byte_timeout`, `idle_timeout`, `model_unloaded` and `backend_crashed` keep their code.",
        "One that showed how its model loads, and has no token yet, ends with the body of the status it would have",
        "had, `loading` included.",
        "",
        "| status | code | type | Retry-After | when |",
        "|---|---|---|---|---|",
    ]
    own = {errors.ModelLoading: "its own", errors.ModelHeld: "its own", errors.ModelQuarantined: "300"}
    shown = set()
    for kind, row in sorted(TABLE.items(), key=lambda item: (item[1].status, item[1].code)):
        wait = own.get(kind) or (str(row.retry_after_s) if row.retry_after_s else "")
        line = f"| {row.status} | `{row.code}` | `{row.type}` | {wait} | {row.meaning} |"
        if line not in shown:
            lines.append(line)
        shown.add(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(page_command("web.errors", errors_page))
