"""GET /api/models: which models there are and how loaded they are, and the load status of one."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify

from localai.errors import BadInput, NotFound
from localai.models.config import ModelConfig
from web.access import Access, open_to
from web.services import Services, services

blueprint = Blueprint("admin_models", __name__)


@blueprint.get("/api/models")
@open_to(Access.ADMIN)
def list_models() -> Response:
    found = services()
    problems = [{"file": place, "error": error} for place, error in sorted(found.configs.problems.items())]
    return jsonify({"models": [_model(found, config) for config in found.configs.all()], "problems": problems})


@blueprint.get("/api/models//load-status")
@blueprint.get("/api/models/<path:name>/load-status")
@open_to(Access.USER)
def load_status(name: str = "") -> Response:
    """The live attempt of a model or the one that holds it.

    The server has decoded the path once, an encoded slash included: it is the name as it stands in a body.
    """
    if not name.strip("/"):
        raise BadInput("model", name, "the name of a model")
    status = services().loads.status(name)
    if status is None:
        raise NotFound(f"model {name!r} is neither loading nor held")
    return jsonify(status.to_json())


def _model(found: Services, config: ModelConfig) -> dict[str, Any]:
    replicas = found.table.replicas(config.name)
    status = None if replicas else found.loads.status(config.name)
    return {
        "name": config.name,
        "backend": config.backend,
        "model": config.model,
        "description": config.description,
        "disabled": config.disabled,
        "known_usecases": list(config.known_usecases),
        "config_revision": config.revision,
        "state": "loaded" if replicas else status.state if status else "unloaded",
        "replicas": [
            {
                "replica_id": replica.replica_id,
                "replica_index": replica.slot,
                "node_id": replica.node_id,
                "node": replica.node_name,
                "address": replica.address,
                "config_revision": replica.revision,
            }
            for replica in replicas
        ],
        "loading": status.to_json() if status else None,
    }
