"""POST /api/jobs/{id}/retry and /api/models/{id}/load-retry: try a load again that was given up."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from localai.errors import BadInput, NotFound
from localai.jobs.kinds import MODEL_LOAD
from localai.loads.attempts import HELD, LOADED
from web.access import Access, open_to
from web.openai.models import usable_config
from web.services import services

blueprint = Blueprint("admin_retries", __name__)


@blueprint.post("/api/jobs/<job_id>/retry")
@open_to(Access.ADMIN)
def retry_job(job_id: str) -> Response:
    """A new attempt for what a job was about."""
    job = services().jobs.get(job_id)
    if job is None:
        raise NotFound(f"there is no job {job_id}")
    if job.kind != MODEL_LOAD:
        text = f"job {job_id} is a {job.kind}; only a {MODEL_LOAD} can be tried again by hand"
        raise BadInput("job_id", job_id, f"the id of a {MODEL_LOAD}", text)
    return _retry(job.subject)


@blueprint.post("/api/models//load-retry")
@blueprint.post("/api/models/<path:name>/load-retry")
@open_to(Access.ADMIN)
def retry_model(name: str = "") -> Response:
    """The same by the name of the model, for failures whose job is not kept any more."""
    if not name.strip("/"):
        raise BadInput("model", name, "the name of a model")
    return _retry(name)


def _retry(model: str) -> Response:
    """202 with the new attempt, 200 where the model serves, 503 with the seconds left while the last one holds it.

    Whatever the answer but a 409, the quarantines of the model are lifted.
    """
    found = services()
    if found.configs.get(model) is None and found.configs.folder_problem is None:
        found.loads.lift(model)  # what failed while it had a config keeps nobody from anything
    config = usable_config(model)
    ticket, lifted = found.loads.retry(config.name, config.revision)
    if ticket.state == HELD:
        raise ticket.status.refusal()
    loaded = ticket.state == LOADED
    message = f"model {config.name} is loaded" if loaded else ticket.status.message()
    if lifted:
        message += f"; lifted on {lifted} node{'' if lifted == 1 else 's'}"
    response = jsonify({"message": message, "job_id": ticket.job_id, "loaded": loaded, "lifted": lifted})
    response.status_code = 200 if loaded else 202
    return response
