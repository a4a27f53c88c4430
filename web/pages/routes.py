"""The page a person sees first, and the files it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from flask import Blueprint, Response, make_response, render_template, send_from_directory

from localai import __version__
from localai.errors import NotFound
from localai.routing.rules import Standing
from web.access import Access, open_to
from web.services import services

blueprint = Blueprint("pages", __name__)

STATIC = Path(__file__).parent.parent / "static"
#: A changed file changes every address, so a browser never asks twice.
_FOR_EVER = "public, max-age=31536000, immutable"


@blueprint.get("/")
@open_to(Access.ANYBODY)
def home() -> Response:
    ready = services().table.standing() in (Standing.FRESH, Standing.STALE)
    return page("home.html", ready=ready, version=__version__)


@blueprint.get("/assets/<version>/<path:name>")
@open_to(Access.ANYBODY)
def asset(version: str, name: str) -> Response:
    if version != assets_version():
        raise NotFound("this page is of an older version: load it again")
    response = send_from_directory(STATIC, name)
    response.headers["Cache-Control"] = _FOR_EVER
    return response


def page(template: str, status: int = 200, **values: object) -> Response:
    """A page in the shell."""
    return make_response(render_template(template, assets=f"/assets/{assets_version()}", **values), status)


@cache
def assets_version() -> str:
    """One hash over all static files."""
    return hashlib.sha256(b"".join(_contents(STATIC))).hexdigest()[:16]


def _contents(folder: Path) -> Iterable[bytes]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes()
