"""POST /v1/embeddings: check, have a replica make one vector for each input, write them as numbers or as base64."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response, jsonify, request

from localai.errors import BackendError, BadInput
from localai.inference.streams import estimated_tokens
from protos import backend_pb2
from web.access import Access, open_to
from web.body import read_json_object, takes
from web.client_watch import ClientWatch, Watch
from web.fan_out import side_by_side
from web.openai.models import usable_config, with_model
from web.openai.responses import named
from web.request_log import note, request_id
from web.schemas.embeddings import EmbeddingsCall, Input, read_embeddings
from web.services import services
from web.serving import Found
from web.usecases import Use

blueprint = Blueprint("openai_embeddings", __name__)

#: Inputs of one request that are under way at once: enough to keep a few replicas busy, and not the whole cluster.
WIDTH = 8

Vector = Found[backend_pb2.EmbeddingResult]


@blueprint.post("/v1/embeddings")
@blueprint.post("/embeddings")
@blueprint.post("/v1/engines/<path:engine>/embeddings")
@open_to(Access.USER)
@takes(None)
def embeddings(engine: str = "") -> Response:
    call = read_embeddings(with_model(read_json_object(), engine))
    note(model=call.model)
    config, serving, correlation_id = usable_config(call.model, Use.VECTORS), services().serving, request_id()

    def ask(given: Input, watch: Watch) -> Vector:
        return serving.embed(config, embedding_options(given, correlation_id), watch)

    with ClientWatch.of(request.environ) as watch:
        found = side_by_side(call.inputs, ask, watch, width=WIDTH)
    vectors = [_vector(call, one.result) for one in found]
    tokens = sum(_tokens(given, one.result) for given, one in zip(call.inputs, found, strict=True))
    return named(jsonify(_body(call, vectors, tokens)), found[0].node_id)


def embedding_options(given: Input, correlation_id: str) -> backend_pb2.PredictOptions:
    """The options of a call for one vector, without `ModelIdentity`: only the chosen replica knows it."""
    if isinstance(given, str):
        return backend_pb2.PredictOptions(Embeddings=given, CorrelationId=correlation_id)
    return backend_pb2.PredictOptions(EmbeddingTokens=given, CorrelationId=correlation_id)


def _vector(call: EmbeddingsCall, result: backend_pb2.EmbeddingResult) -> Sequence[float]:
    """The numbers of a vector. Raises BadInput where they are not as many as were asked for."""
    if result.layout == backend_pb2.EMBEDDING_LAYOUT_PER_TOKEN:
        raise BackendError("the model process answered with a vector for each token instead of one for the text")
    vector = result.embeddings
    if not vector:
        raise BackendError("the model process answered with an empty vector")
    if call.dimensions not in (None, len(vector)):
        accepted = f"{len(vector)}, which is what {call.model!r} has, or nothing: a vector cannot be shortened"
        raise BadInput("dimensions", call.dimensions, accepted)
    return vector


def _tokens(given: Input, result: backend_pb2.EmbeddingResult) -> int:
    counted = result.prompt_tokens or result.tokens
    return counted or (estimated_tokens(given) if isinstance(given, str) else len(given))


def _body(call: EmbeddingsCall, vectors: Sequence[Sequence[float]], tokens: int) -> dict[str, Any]:
    written = as_base64 if call.base64 else list
    data = [
        {"object": "embedding", "index": index, "embedding": written(vector)} for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": call.model, "usage": usage}


def as_base64(vector: Sequence[float]) -> str:
    """The numbers as little-endian float32."""
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()
