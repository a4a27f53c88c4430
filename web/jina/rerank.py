"""POST /v1/rerank: check, have a replica score the documents, put the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, jsonify, request

from localai.errors import BackendError
from localai.inference.streams import estimated_tokens
from protos import backend_pb2
from web.access import Access, open_to
from web.body import read_json_object, takes
from web.client_watch import ClientWatch
from web.openai.models import usable_config
from web.openai.responses import named
from web.request_log import note
from web.schemas.rerank import RerankCall, read_rerank
from web.services import services
from web.usecases import Use

blueprint = Blueprint("jina_rerank", __name__)


@blueprint.post("/v1/rerank")
@blueprint.post("/rerank")
@open_to(Access.USER)
@takes(None)
def rerank() -> Response:
    call = read_rerank(read_json_object())
    note(model=call.model)
    config = usable_config(call.model, Use.VECTORS)
    wanted = backend_pb2.RerankRequest(query=call.query, documents=call.documents, top_n=call.top_n)
    with ClientWatch.of(request.environ) as watch:
        found = services().serving.rerank(config, wanted, watch)
    return named(jsonify(_body(call, found.result)), found.node_id)


def _body(call: RerankCall, result: backend_pb2.RerankResult) -> dict[str, Any]:
    tokens = result.usage.total_tokens or sum(map(estimated_tokens, (call.query, *call.documents)))
    usage = {"total_tokens": tokens, "prompt_tokens": result.usage.prompt_tokens or tokens}
    results = [_shown(call, found) for found in _best(call, result.results)]
    return {"model": call.model, "usage": usage, "results": results}


def _best(call: RerankCall, results: Sequence[backend_pb2.DocumentResult]) -> list[backend_pb2.DocumentResult]:
    """The best first; of equal ones the earlier. Backends order and cut as they like."""
    if not all(0 <= found.index < len(call.documents) for found in results):
        raise BackendError("the model process scored a document that it was not given")
    return sorted(results, key=lambda found: (-found.relevance_score, found.index))[: call.top_n]


def _shown(call: RerankCall, found: backend_pb2.DocumentResult) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": found.index}
    if call.return_documents:
        shown["document"] = {"text": call.documents[found.index]}
    return {**shown, "relevance_score": found.relevance_score}
