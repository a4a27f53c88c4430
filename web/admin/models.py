"""GET /api/models: which models there are and how loaded they are; the load of one, and its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, jsonify

from localai.errors import BadInput, NotFound
from localai.jobs.cancel_rules import CancelState
from localai.jobs.quarantine_rules import Streak
from localai.models.config import ModelConfig
from web.access import Access, open_to
from web.body import read_json_object
from web.schemas.jobs import read_load_cancel
from web.services import Services, services

blueprint = Blueprint("admin_models", __name__)

#: An id and its name take far less.
_CANCEL_BYTES = 4096
_STATUS = {CancelState.STOPPING: 202, CancelState.CONFLICT: 409}


@blueprint.get("/api/models")
@open_to(Access.ADMIN)
def list_models() -> Response:
    found = services()
    problems = [{"file": place, "error": error} for place, error in sorted(found.configs.problems.items())]
    quarantined = defaultdict(list)
    for streak in found.loads.quarantines():
        quarantined[streak.model].append(streak)
    models = [_model(found, config, quarantined[config.name]) for config in found.configs.all()]
    return jsonify({"models": models, "problems": problems})


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


@blueprint.post("/api/models//load-cancel")
@blueprint.post("/api/models/<path:name>/load-cancel")
@open_to(Access.ADMIN)
def load_cancel(name: str = "") -> Response:
    """End exactly the named attempt: 200 stopped or gone, 202 while the worker has not said so, 409 for another one."""
    if not name.strip("/"):
        raise BadInput("model", name, "the name of a model")
    job_id = read_load_cancel(read_json_object(most=_CANCEL_BYTES))
    found = services()
    answer = found.load_cancels.cancel(name, job_id, configured=found.configs.get(name) is not None)
    response = jsonify(answer.to_json())
    response.status_code = _STATUS.get(answer.state, 200)
    if answer.retry_after is not None:
        response.headers["Retry-After"] = str(answer.retry_after)
    return response


def _model(found: Services, config: ModelConfig, quarantined: Sequence[Streak]) -> dict[str, Any]:
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
        "quarantined": [streak.to_json() for streak in quarantined],
    }
