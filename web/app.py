"""The Flask application of one web process: routes, who may call them, and what their errors look like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from localai import logs
from localai.errors import BadInput, LocalAIError, NotAuthenticated, NotFound
from web import access, body, errors, metrics, request_log, services
from web.admin import jobs as admin_jobs
from web.admin import loading as admin_loading
from web.admin import models as admin_models
from web.admin import node_logs as admin_node_logs
from web.admin import nodes as admin_nodes
from web.admin import retries as admin_retries
from web.auth import attempts, sessions
from web.auth import routes as auth
from web.auth.ended import EndedSessions
from web.jina import rerank as jina_rerank
from web.node import drain as node_drain
from web.node import files as node_files
from web.node import heartbeat as node_heartbeat
from web.node import jobs as node_jobs
from web.node import register as node_register
from web.openai import chat as openai_chat
from web.openai import completions as openai_completions
from web.openai import embeddings as openai_embeddings
from web.openai import models as openai_models
from web.outer_scheme import OuterScheme
from web.pages import routes as pages
from web.probes import blueprint as probes

log = logs.get(__name__)

MIB = 1024 * 1024

BLUEPRINTS = (
    metrics.blueprint,
    probes,
    pages.blueprint,
    auth.blueprint,
    openai_chat.blueprint,
    openai_completions.blueprint,
    openai_embeddings.blueprint,
    openai_models.blueprint,
    jina_rerank.blueprint,
    admin_jobs.blueprint,
    admin_models.blueprint,
    admin_loading.blueprint,
    admin_retries.blueprint,
    admin_nodes.blueprint,
    admin_node_logs.blueprint,
    node_register.blueprint,
    node_heartbeat.blueprint,
    node_drain.blueprint,
    node_jobs.blueprint,
    node_files.blueprint,
)

#: Everything a page runs, shows or asks comes from this server, from files: no inline script, no inline style.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app() -> Flask:
    """The application gunicorn serves. Called in each web process, after the fork."""
    from web.wiring import build_services  # late: tests of the routes need neither queue nor database

    built = build_services()
    app = make_app(built)
    built.start()
    return app


def make_app(built: services.Services) -> Flask:
    """The application over services that are not started."""
    return serve(make_routes(), built)


def serve(app: Flask, built: services.Services) -> Flask:
    """Let these services answer the routes."""
    app.config["BODY_LIMIT_BYTES"] = built.settings.upload_limit_mb * MIB
    services.install(app, built)
    sessions.install(app, sessions.Sessions(built.keys, EndedSessions(built.ended_sessions, sessions.SESSION_S)))
    attempts.install(app, attempts.Attempts())
    app.wsgi_app = OuterScheme(app.wsgi_app, built.settings.trusted_proxies)  # type: ignore[method-assign]
    return app


def make_routes() -> Flask:
    """Every route, who may call it, and what its errors look like; nothing that answers yet."""
    app = Flask(__name__, static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.json.ensure_ascii = False  # type: ignore[attr-defined]
    # A model's name may hold what looks like a folder: `org/name` and `org//name` are two names.
    app.url_map.merge_slashes = False
    request_log.install(app)
    metrics.install(app)
    access.check_access(app)
    app.before_request(body.check_length)
    app.before_request(_refuse_nul)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    app.after_request(_harden)
    app.register_error_handler(LocalAIError, _refuse)
    app.register_error_handler(HTTPException, _refuse_http)
    app.register_error_handler(Exception, _fail)
    return app


def _refuse_nul() -> None:
    """No name holds a NUL, and the database would refuse a statement with one as a fault of ours."""
    if "\0" in request.path:
        raise NotFound("there is nothing at an address with a NUL")
    if not request.query_string:
        return  # most requests; reading no arguments costs as much as reading some
    for name, value in request.args.items(multi=True):
        if "\0" in name + value:
            raise BadInput(name, value, "a text without NUL")


def _harden(response: Response) -> Response:
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    if response.mimetype == "application/json":
        response.headers.setdefault("Cache-Control", "no-store")
    if response.mimetype == "text/html":
        response.headers.setdefault("Content-Security-Policy", _POLICY)
        response.headers.setdefault("Referrer-Policy", "no-referrer")
    return response


def _refuse(error: LocalAIError) -> Response:
    """An error of ours, in the shape of the surface that was asked."""
    access.count_refusal(error)
    if isinstance(error, NotAuthenticated) and pages.is_for_a_person():
        return pages.to_sign_in()
    row = errors.row_of(error)
    if row.status >= 500:
        log.warning(
            "%s: %s",
            type(error).__name__,
            error.message,
            extra=logs.fields(request_id=request_log.request_id(), **error.facts),
        )
    headers = {}
    if isinstance(error, NotAuthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    retry_after = errors.retry_after_of(error)
    if retry_after is not None:
        headers["Retry-After"] = str(retry_after)
    return _answer(_body(error), row.status, headers)


def _body(error: LocalAIError) -> Mapping[str, Any]:
    if request.path.startswith("/api/node/"):
        return errors.node_body(error)
    if request.path == "/api/nodes" or request.path.startswith("/api/nodes/") or request.path.endswith("/load-cancel"):
        return errors.node_admin_body(error)
    return errors.openai_body(error, admin=request.path.startswith("/api/"))


def _refuse_http(error: HTTPException) -> Response:
    """What the routing itself refuses: no such address, no such method."""
    status = error.code or 500
    if status == 404 and pages.is_for_a_person():
        return pages.page("not_found.html", 404)
    if status == 404:
        return _refuse(NotFound(f"there is nothing at {request.path}"))
    if status == 400:
        return _refuse(BadInput("request", "", "", f"the request cannot be read: {error.description}"))
    inner = {"message": error.description or error.name, "type": "invalid_request_error", "code": _code_of(error)}
    if request.path.startswith("/api/node/"):
        return _answer({"error": inner["message"]}, status, _allowed(error))
    return _answer({"error": {**inner, "param": None}}, status, _allowed(error))


def _code_of(error: HTTPException) -> str:
    return error.name.lower().replace(" ", "_")


def _allowed(error: HTTPException) -> dict[str, str]:
    methods = getattr(error, "valid_methods", None)
    return {"Allow": ", ".join(methods)} if methods else {}


def _fail(error: Exception) -> Response:
    """A fault of ours. The log has it; the caller gets the id to search for."""
    wanted = request_log.request_id()
    log.exception("a request failed", extra=logs.fields(request_id=wanted, path=request.path))
    return _refuse_fault(f"a fault of the server; its log has the details under request id {wanted}")


def _refuse_fault(message: str) -> Response:
    row = errors.FAULT
    if request.path.startswith("/api/node/"):
        return _answer({"error": message}, row.status, {})
    inner = {"message": message, "type": row.type, "code": row.code, "param": None}
    return _answer({"error": inner}, row.status, {})


def _answer(body: Mapping[str, Any], status: int, headers: Mapping[str, str]) -> Response:
    text = json.dumps(body, ensure_ascii=False) + "\n"
    return Response(text, status=status, mimetype="application/json", headers=dict(headers))
