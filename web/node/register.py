"""POST /api/node/register and deregister: an agent begins and ends a life."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from localai.errors import BadInput, NotAuthenticated
from localai.nodes.rules import NodeType
from web.access import Access, open_to
from web.body import read_json_object, takes
from web.identity import bearer
from web.limits import NODE_BODY
from web.schemas.nodes import read_heartbeat, read_registration
from web.services import services

blueprint = Blueprint("node_register", __name__)


@blueprint.post("/api/node/register")
@open_to(Access.NODE)
@takes(NODE_BODY)
def register() -> Response:
    """201 with the node's id, the number of this life, and the credential of all later calls, shown once."""
    found = services()
    shown = bearer(request.headers)
    join_token_hash = found.node_keys.require_registration(shown)
    registration, token = read_registration(read_json_object())
    if found.node_keys.require_registration(token) != join_token_hash:
        raise NotAuthenticated("the token of the header and the one of the body differ")
    if registration.node_type is NodeType.BACKEND and not registration.address:
        raise BadInput("address", registration.address, "host:port that frontends dial for gRPC")
    node = found.nodes.register(registration, join_token_hash)
    response = jsonify(
        {
            "id": node.id,
            "name": node.name,
            "node_type": node.node_type,
            "status": node.status,
            "created_at": node.created_at.isoformat().replace("+00:00", "Z"),
            "incarnation": node.incarnation,
            "node_token": node.node_token,
            "link": {"kind": "nats"},
        }
    )
    response.status_code = 201
    return response


@blueprint.post("/api/node/<node_id>/deregister")
@blueprint.delete("/api/node/<node_id>")
@open_to(Access.NODE)
def deregister(node_id: str) -> Response:
    """The agent ends in good order; its row and its approval stay."""
    node = services().node_keys.require_node(node_id, bearer(request.headers))
    incarnation, _, _ = read_heartbeat(read_json_object(empty=True))
    services().nodes.deregister(node, incarnation)
    return jsonify({"message": "node set to offline"})
