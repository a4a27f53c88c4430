"""Which models may be asked for: GET /v1/models, and what every inference route asks first."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify

from localai.errors import ModelNotFound
from localai.models.config import ModelConfig
from web.access import Access, open_to
from web.errors import ModelDisabled
from web.services import services
from web.usecases import Use, require

blueprint = Blueprint("openai_models", __name__)


@blueprint.get("/v1/models")
@blueprint.get("/models")
@open_to(Access.USER)
def list_models() -> Response:
    found = [_model(config) for config in services().configs.all() if not config.disabled]
    return jsonify({"object": "list", "data": found})


@blueprint.get("/v1/models/<path:name>")
@open_to(Access.USER)
def get_model(name: str) -> Response:
    config = services().configs.require(name)
    if config.disabled:
        raise ModelNotFound(name)
    return jsonify(_model(config))


def _model(config: ModelConfig) -> dict[str, Any]:
    # The original API's clients ask for both; a config has neither a birthday nor an owner.
    return {"id": config.name, "object": "model", "created": 0, "owned_by": "localai"}


def usable_config(model: str, use: Use | None = None) -> ModelConfig:
    """The config of a model. Raises ModelNotFound, ModelDisabled, or BackendUnimplemented where it is not for this use.

    Raises ModelsFolderUnavailable if the model may be in a folder that cannot be read.

    Never loads anything.
    """
    config = services().configs.require(model)
    if config.disabled:
        raise ModelDisabled(f"the model {model!r} is switched off in its config")
    if use is not None:
        require(config, use)
    return config


def with_model(body: dict[str, Any], engine: str) -> dict[str, Any]:
    """A body that names its model: older clients name it in the path."""
    return {"model": engine, **body} if engine else body
