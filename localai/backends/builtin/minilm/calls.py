"""Which calls of the backend protocol a sentence encoder answers, and how."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import backend_pb2
import backend_pb2_grpc
import grpc
import serving
from encoder import Encoder, LoadFailed, Refused

#: Calls that compute or wait for their turn. The rest of the threads stays free for Health.
CALL_LIMIT = serving.CALL_THREADS - 16

AnyRequest = backend_pb2.PredictOptions | backend_pb2.RerankRequest


class MiniLM(backend_pb2_grpc.BackendServicer):
    """One model at a time."""

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._encoder: Encoder | None = None
        self._identity = ""
        self._free_calls = threading.Semaphore(CALL_LIMIT)

    def Health(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.Reply:
        return backend_pb2.Reply(message=b"OK")

    def Status(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.StatusResponse:
        if self._loading.locked():
            return backend_pb2.StatusResponse(state="BUSY")
        return backend_pb2.StatusResponse(state="UNINITIALIZED" if self._encoder is None else "READY")

    def Free(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.Result:
        self._encoder = None
        return backend_pb2.Result(success=True)

    def LoadModel(self, request: backend_pb2.ModelOptions, context: grpc.ServicerContext) -> backend_pb2.Result:
        with self._loading:
            self._encoder = None
            try:
                encoder = Encoder(request)
            except LoadFailed as error:
                serving.log(str(error))
                return backend_pb2.Result(success=False, message=str(error))
            self._encoder, self._identity = encoder, request.Model
        return backend_pb2.Result(success=True, message="loaded")

    def Embedding(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> backend_pb2.EmbeddingResult:
        gone = serving.ended(context)
        with self._call(request, context) as encoder:
            tokens = list(request.EmbeddingTokens)
            if not tokens:
                tokens = encoder.tokenize(_required("Embeddings", request.Embeddings or request.Prompt))
            tokens = encoder.shortened(tokens)
            vector = encoder.embed(tokens, gone)
        return backend_pb2.EmbeddingResult(
            embeddings=vector.tolist(),
            dim=len(vector),
            tokens=len(tokens),
            prompt_tokens=len(tokens),
            layout=backend_pb2.EMBEDDING_LAYOUT_FINAL,
        )

    def Rerank(self, request: backend_pb2.RerankRequest, context: grpc.ServicerContext) -> backend_pb2.RerankResult:
        gone = serving.ended(context)
        with self._call(request, context) as encoder:
            asked = encoder.shortened(encoder.tokenize(_required("query", request.query)))
            query, count = encoder.embed(asked, gone), len(asked)
            found = []
            for index, text in enumerate(request.documents):
                tokens = encoder.shortened(encoder.tokenize(text))
                count += len(tokens)
                score = float(query @ encoder.embed(tokens, gone))
                found.append(backend_pb2.DocumentResult(index=index, text=text, relevance_score=score))
        found.sort(key=lambda result: -result.relevance_score)
        usage = backend_pb2.Usage(total_tokens=count, prompt_tokens=count)
        return backend_pb2.RerankResult(usage=usage, results=found[: request.top_n] if request.top_n > 0 else found)

    def TokenizeString(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> backend_pb2.TokenizationResponse:
        with self._call(request, context) as encoder:
            tokens = encoder.tokenize(request.Prompt)
        return backend_pb2.TokenizationResponse(length=len(tokens), tokens=tokens)

    @contextmanager
    def _call(self, request: AnyRequest, context: grpc.ServicerContext) -> Iterator[Encoder]:
        """The model for the length of one call; what it refuses becomes the status of the call."""
        encoder = self._encoder
        if encoder is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "model not loaded")
        serving.check_identity(request.ModelIdentity, self._identity, context)
        if not self._free_calls.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{CALL_LIMIT} calls are running or waiting")
        try:
            yield encoder
        except Refused as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        finally:
            self._free_calls.release()


def _required(field: str, text: str) -> str:
    if not text:
        raise Refused(f"{field} is empty")
    return text
