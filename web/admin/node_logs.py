"""GET /api/nodes/<id>/backend-logs: what the model processes of a node wrote, asked of its worker."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from flask import Blueprint, Response, jsonify, request

from localai.errors import NotFound
from web.access import Access, open_to
from web.services import services
from web.worker_http import get_json

blueprint = Blueprint("admin_node_logs", __name__)

#: What a worker understands; anything else is not passed on.
_PARAMETERS = ("lines", "after")


@blueprint.get("/api/nodes/<node_id>/backend-logs")
@open_to(Access.ADMIN)
def list_logs(node_id: str) -> Response:
    """The models whose processes wrote something there."""
    return _worker(node_id, "/v1/backend-logs")


@blueprint.get("/api/nodes/<node_id>/backend-logs/<path:model>")
@open_to(Access.ADMIN)
def show_log(node_id: str, model: str) -> Response:
    """The last `lines` of each process, or what each wrote since the cursor `after`."""
    query = {name: request.args[name] for name in _PARAMETERS if name in request.args}
    return _worker(node_id, f"/v1/backend-logs/{quote(model, safe='')}?{urlencode(query)}")


def _worker(node_id: str, target: str) -> Response:
    node = services().nodes.get(node_id)
    if node is None:
        raise NotFound(f"there is no node {node_id}")
    # A worker that was invited has no registration token, and must not be shown one.
    key = services().nodes.log_key(node.id) or services().settings.registration_token
    return jsonify(get_json(node, target, key))
