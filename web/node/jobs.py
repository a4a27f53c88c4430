"""The agent's claim of an operation and its report of everything it runs."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from localai.errors import Replaced
from localai.ids import JobId
from localai.jobs.operation_rules import Report
from localai.nodes.host_rules import check_process_addresses
from web.access import Access, open_to
from web.body import read_json_object, takes
from web.identity import bearer
from web.limits import NODE_BODY
from web.schemas.nodes import read_claim
from web.services import services

blueprint = Blueprint("node_jobs", __name__)


@blueprint.post("/api/node/<node_id>/jobs/<job_id>/claim")
@open_to(Access.NODE)
def claim(node_id: str, job_id: str) -> Response:
    """200 with the order, 409 when the operation must not start; anything else means: ask again.

    403 for a node that waits for approval.
    """
    node = services().node_keys.require_approved_node(node_id, bearer(request.headers)).id
    wanted = read_claim(read_json_object())
    order = services().operations.claim(node, wanted.incarnation, JobId(job_id), wanted.op_generation, wanted.seq)
    return jsonify(order.to_json())


@blueprint.post("/api/node/<node_id>/report")
@open_to(Access.NODE)
@takes(NODE_BODY)
def report(node_id: str) -> Response:
    """What the rows say to each operation; 409 when a newer life of the agent is registered.

    403 for a node that waits for approval: nothing of it runs, so it has nothing to report.
    """
    node = services().node_keys.require_approved_node(node_id, bearer(request.headers))
    said = Report.from_json(read_json_object())
    check_process_addresses(node.address, said.addresses())
    try:
        answer = services().operations.report(node.id, said)
    except Replaced:
        services().nodes.heard_of_older(node.id, said.incarnation)
        raise
    return jsonify(answer.to_json())
