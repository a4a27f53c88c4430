"""GET /api/nodes: the machines, what they hold, and letting one in."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from localai.errors import NotFound
from web.access import Access, open_to
from web.services import services

blueprint = Blueprint("admin_nodes", __name__)


@blueprint.get("/api/nodes")
@open_to(Access.ADMIN)
def list_nodes() -> Response:
    return jsonify([node.to_json() for node in services().nodes.list()])


@blueprint.get("/api/nodes/<node_id>")
@open_to(Access.ADMIN)
def show_node(node_id: str) -> Response:
    node = services().nodes.get(node_id)
    if node is None:
        raise NotFound(f"there is no node {node_id}")
    return jsonify(node.to_json())


@blueprint.get("/api/nodes/<node_id>/models")
@open_to(Access.ADMIN)
def node_models(node_id: str) -> Response:
    return jsonify([replica.to_json() for replica in services().replicas.list_for_node(node_id)])


@blueprint.post("/api/nodes/<node_id>/approve")
@open_to(Access.ADMIN)
def approve_node(node_id: str) -> Response:
    """Let a node in; doing it again changes nothing."""
    node = services().nodes.approve(node_id)
    return jsonify(
        {
            "id": node.id,
            "name": node.name,
            "node_type": node.node_type,
            "status": node.status,
            "message": "node approved",
        }
    )
