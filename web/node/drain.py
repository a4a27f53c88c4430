"""POST /api/node/<id>/drain and resume: a machine takes itself out of use, before its own maintenance."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from web.access import Access, open_to
from web.identity import bearer
from web.services import services

blueprint = Blueprint("node_drain", __name__)


@blueprint.post("/api/node/<node_id>/drain")
@open_to(Access.NODE)
def drain(node_id: str) -> Response:
    """As an administrator's drain. A person at the machine shows the secret in the data folder of its worker."""
    node = services().node_keys.require_node(node_id, bearer(request.headers), secret_too=True)
    begun = services().drains.drain(node)
    return jsonify({"message": begun.message, "job_id": begun.job_id})


@blueprint.post("/api/node/<node_id>/resume")
@open_to(Access.NODE)
def resume(node_id: str) -> Response:
    node = services().node_keys.require_node(node_id, bearer(request.headers), secret_too=True)
    resumed = services().drains.resume(node)
    return jsonify({"message": resumed.message, "job_id": resumed.job_id})
