"""GET /api/nodes: the machines and what they hold; letting one in, taking it out of use, removing it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from flask import Blueprint, Response, jsonify, request

from localai.errors import BadInput
from localai.ids import NodeId
from localai.jobs.quarantine_rules import Streak
from localai.unloads.drains import Drain
from web.access import Access, open_to
from web.body import read_json_object
from web.schemas.nodes import read_force, read_invitation, read_unload
from web.services import services

blueprint = Blueprint("admin_nodes", __name__)

_SWITCH = {"": False, "false": False, "0": False, "true": True, "1": True}


@blueprint.get("/api/nodes")
@open_to(Access.ADMIN)
def list_nodes() -> Response:
    found = services()
    quarantined = _by_node(found.loads.quarantines())
    return jsonify([{**node.to_json(), "quarantined": quarantined[node.id]} for node in found.nodes.list()])


@blueprint.get("/api/nodes/<node_id>")
@open_to(Access.ADMIN)
def show_node(node_id: str) -> Response:
    found = services()
    node = found.nodes.require(node_id)
    quarantined = _by_node(found.loads.quarantines(node_id=NodeId(node.id)))
    return jsonify({**node.to_json(), "quarantined": quarantined[node.id]})


@blueprint.post("/api/node-invitations")
@open_to(Access.ADMIN)
def invite_node() -> Response:
    """A join token for one node name, shown once."""
    name, expires_in_s = read_invitation(read_json_object())
    made = services().invitations.invite(name, expires_in_s)
    response = jsonify(
        {"name": made.name, "token": made.token, "expires_at": made.expires_at.isoformat().replace("+00:00", "Z")}
    )
    response.status_code = 201
    return response


@blueprint.get("/api/nodes/<node_id>/models")
@open_to(Access.ADMIN)
def node_models(node_id: str) -> Response:
    found = services()
    found.nodes.require(node_id)
    return jsonify([replica.to_json() for replica in found.replicas.list_for_node(node_id)])


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


@blueprint.post("/api/nodes/<node_id>/models/unload")
@open_to(Access.ADMIN)
def unload_model(node_id: str) -> Response:
    """200 once the worker has acknowledged the stop or nothing matched, 202 while it has not, 502 where it failed."""
    model, force = read_unload(read_json_object())
    found = services()
    found.nodes.require(node_id)
    unload = found.unloads.unload_on(NodeId(node_id), model, force=force)
    response = jsonify({"message": unload.message, "job_id": unload.job_id})
    response.status_code = 200 if unload.done else 202
    return response


@blueprint.post("/api/nodes/<node_id>/drain")
@open_to(Access.ADMIN)
def drain_node(node_id: str) -> Response:
    """The node gets no new work; the job empties it, with ``force`` without waiting for its requests."""
    return _answer(services().drains.drain(node_id, force=read_force(read_json_object(empty=True))))


@blueprint.post("/api/nodes/<node_id>/resume")
@open_to(Access.ADMIN)
def resume_node(node_id: str) -> Response:
    """The node gets work again, and a drain or removal under way is called off."""
    return _answer(services().drains.resume(node_id))


@blueprint.delete("/api/nodes/<node_id>")
@open_to(Access.ADMIN)
def remove_node(node_id: str) -> Response:
    """Drain, and then the row goes: 200 once it has, 202 while something is left there."""
    removal = services().drains.remove(node_id, force=_force())
    response = _answer(removal)
    response.status_code = 200 if removal.done else 202
    return response


def _answer(drain: Drain) -> Response:
    return jsonify({"message": drain.message, "job_id": drain.job_id})


def _force() -> bool:
    text = request.args.get("force", "")
    if text not in _SWITCH:
        raise BadInput("force", text, "true or false")
    return _SWITCH[text]


def _by_node(streaks: Sequence[Streak]) -> Mapping[str, list[dict[str, object]]]:
    """What each node is kept from: the models that failed there again and again."""
    found: dict[str, list[dict[str, object]]] = defaultdict(list)
    for streak in streaks:
        found[streak.node_id].append(streak.to_json())
    return found
