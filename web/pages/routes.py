"""Which pages there are: the start page, the sign-in, and one shell for each page of the admin UI."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, redirect, render_template, request, send_from_directory

from localai import __version__
from localai.errors import NotFound
from localai.ids import is_uuid
from localai.jobs.job import State
from localai.jobs.kinds import KINDS
from localai.routing.rules import Standing
from web.access import Access, open_to
from web.auth.routes import forget
from web.auth.sessions import COOKIE, sessions
from web.pages.assets import STATIC, assets_root, assets_version, modules_of
from web.pages.join import join
from web.services import services

blueprint = Blueprint("pages", __name__)

_FOR_EVER = "public, max-age=31536000, immutable"
_FIRST_PAGE = "/app/chat"
#: A path on this server. Two slashes at the beginning, also written the other way, are another server to a browser.
_OWN_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")


@blueprint.get("/")
@open_to(Access.ANYBODY)
def home() -> Response:
    """What this is and whether it is ready; a browser that is signed in goes on to the first page."""
    if sessions().accept(request.cookies.get(COOKIE)):
        return _go(_FIRST_PAGE)
    return page("home.html", ready=services().table.standing() in (Standing.FRESH, Standing.STALE))


@blueprint.get("/assets/<version>/<path:name>")
@open_to(Access.ANYBODY)
def asset(version: str, name: str) -> Response:
    if version != assets_version():
        raise NotFound("this page is of an older version: load it again")
    response = send_from_directory(STATIC, name)
    response.headers["Cache-Control"] = _FOR_EVER
    return response


@blueprint.get("/login")
@open_to(Access.ANYBODY)
def login() -> Response:
    """The sign-in; it goes on to the page that asked for it."""
    after = own_path(request.args.get("next", ""))
    cookie = request.cookies.get(COOKIE)
    if sessions().accept(cookie):
        return _go(after)
    response = page("login.html", module="js/login/page.js", after=after, ended=bool(cookie))
    if cookie:
        forget(response)
    return response


@blueprint.get("/app")
@blueprint.get("/app/")
@open_to(Access.ADMIN)
def app_start() -> Response:
    return _go(_FIRST_PAGE)


@blueprint.get("/app/chat")
@open_to(Access.ADMIN)
def chat() -> Response:
    return page("chat.html", module="js/chat/page.js")


@blueprint.get("/app/models")
@open_to(Access.ADMIN)
def models() -> Response:
    return page("models.html", module="js/models/page.js")


@blueprint.get("/app/nodes")
@open_to(Access.ADMIN)
def nodes() -> Response:
    how = join(services().settings, request.host_url.rstrip("/"))
    return page("nodes.html", module="js/nodes/page.js", join=how.command, only_here=how.only_here)


@blueprint.get("/app/jobs")
@open_to(Access.ADMIN)
def jobs() -> Response:
    return page("jobs.html", module="js/jobs/page.js", states=[state.value for state in State], kinds=sorted(KINDS))


@blueprint.get("/app/jobs/<job_id>")
@open_to(Access.ADMIN)
def job(job_id: str) -> Response:
    if not is_uuid(job_id):
        return page("not_found.html", 404, what=f"“{job_id[:80]}” is not the id of a job.", back="/app/jobs")
    return page("job.html", module="js/job/page.js", job_id=job_id)


def page(template: str, status: int = 200, *, module: str = "", **values: object) -> Response:
    """A page in the shell, with the module that makes it live. It is never kept: it holds the token for writes."""
    shell = {
        "assets": assets_root(),
        "csrf_token": sessions().csrf_token(request.cookies.get(COOKIE)),
        "modules": modules_of(module) if module else (),
        "version": __version__,
    }
    response = make_response(render_template(template, **shell, **values), status)
    response.headers["Cache-Control"] = "no-store"
    return response


def is_for_a_person() -> bool:
    """Whether a browser asks for a page to show, and not a program for data."""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", "")


def to_sign_in() -> Response:
    """The way to the sign-in and back to the page that was asked for."""
    asked = request.full_path if request.query_string else request.path
    return _go("/login?" + urlencode({"next": own_path(asked)}))


def own_path(path: str) -> str:
    """A path on this server; the first page for anything else, so that a link cannot lead a person elsewhere."""
    return path if _OWN_PATH.fullmatch(path) else _FIRST_PAGE


def _go(path: str) -> Response:
    response = make_response(redirect(path, 303))
    response.headers["Cache-Control"] = "no-store"
    return response
