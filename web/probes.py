"""Is this process alive, may it get requests, and which version is it?"""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from localai import __version__
from localai.routing.rules import Standing
from web.access import Access, open_to
from web.services import services

blueprint = Blueprint("probes", __name__)


@blueprint.get("/healthz")
@open_to(Access.ANYBODY)
def healthz() -> Response:
    """Says that the process runs, and nothing about the database or the bus."""
    return Response(status=200)


@blueprint.get("/readyz")
@open_to(Access.ANYBODY)
def readyz() -> Response:
    """503 until the routes were read; with stale routes loaded models are served on, so it stays 200 and says so."""
    found = services()
    standing = found.table.standing()
    if standing is Standing.FRESH:
        return Response(status=200)
    reason = f"routes were last confirmed {found.table.age_s():.0f} s ago: the database does not answer"
    if standing is Standing.STALE and found.settings.stale_routing == "serve":
        return Response(f"stale routing: {reason}\n", mimetype="text/plain")
    if standing is Standing.STARTING:
        reason = "the routes are not read yet"
    response = jsonify({"status": "starting", "reason": reason})
    response.status_code = 503
    return response


@blueprint.get("/version")
@open_to(Access.USER)
def version() -> Response:
    return jsonify({"version": __version__})
