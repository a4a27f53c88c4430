"""POST /backend/load and /backend/shutdown: load a model before anybody asks it something, and unload it everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify

from localai.errors import BadInput
from localai.loads.attempts import HELD, LOADED
from web.access import Access, open_to
from web.body import read_json_object
from web.openai.models import usable_config
from web.schemas.nodes import read_force
from web.services import services

blueprint = Blueprint("admin_loading", __name__)


@blueprint.post("/backend/load")
@blueprint.post("/v1/backend/load")
@open_to(Access.ADMIN)
def load() -> Response:
    """202 with the job that loads, 200 where the model serves already; it asks exactly as a first request does."""
    config = usable_config(_model())
    ticket = services().loads.request(config.name, config.revision)
    if ticket.state == HELD:
        raise ticket.status.refusal()
    loaded = ticket.state == LOADED
    response = jsonify(
        {
            "loaded": [config.name] if loaded else [],
            "message": f"model {config.name} is loaded" if loaded else ticket.status.message(),
            "job_id": ticket.job_id,
        }
    )
    response.status_code = 200 if loaded else 202
    return response


@blueprint.post("/backend/shutdown")
@blueprint.post("/v1/backend/shutdown")
@open_to(Access.ADMIN)
def shutdown() -> Response:
    """202 with the job that unloads, 200 if nothing is left to wait for. With ``force`` running requests are cut."""
    body, found = read_json_object(), services()
    model = _named(body)
    unload = found.unloads.request(model, force=read_force(body))
    # A config that was deleted leaves replicas behind, and they may be unloaded.
    if unload.job_id is None and not unload.cancelled_loads:
        found.configs.require(model)
    response = jsonify({"message": unload.message, "job_id": unload.job_id})
    response.status_code = 200 if unload.job_id is None else 202
    return response


def _model() -> str:
    return _named(read_json_object())


def _named(body: Mapping[str, Any]) -> str:
    name = body.get("model")
    if not isinstance(name, str) or not name.strip():
        raise BadInput("model", name, "the name of a model")
    return name
