"""POST /api/node/<id>/heartbeat: the node is there, and what it has left. GET .../models: what its rows say."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from web.access import Access, open_to
from web.body import read_json_object, takes
from web.identity import bearer
from web.limits import NODE_BODY
from web.schemas.nodes import read_heartbeat
from web.services import services

blueprint = Blueprint("node_heartbeat", __name__)


@blueprint.post("/api/node/<node_id>/heartbeat")
@open_to(Access.NODE)
@takes(NODE_BODY)
def heartbeat(node_id: str) -> Response:
    """404 for an unknown node, 409 for a life of the agent that was replaced."""
    node = services().node_keys.require_node(node_id, bearer(request.headers))
    incarnation, figures, holdings = read_heartbeat(read_json_object(empty=True))
    status = services().nodes.heartbeat(node, incarnation, figures, holdings)
    return jsonify({"message": "heartbeat received", "status": status})


@blueprint.get("/api/node/<node_id>/models")
@open_to(Access.NODE)
def models(node_id: str) -> Response:
    node = services().node_keys.require_node(node_id, bearer(request.headers))
    return jsonify([replica.to_json() for replica in services().replicas.list_for_node(node)])
