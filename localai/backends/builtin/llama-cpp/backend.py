"""llama.cpp behind the backend protocol: GGUF models for chat, completion and embeddings."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

import backend_pb2
import backend_pb2_grpc
import bodies
import grpc
import parameters
import replies
import serving
from engine import Engine, LoadFailed, Refused
from generation import Generation

#: Calls that run or wait for a slot. The rest of the threads stays free for Health.
CALL_LIMIT = serving.CALL_THREADS - 16

_STATUS = {400: grpc.StatusCode.INVALID_ARGUMENT, 501: grpc.StatusCode.UNIMPLEMENTED, 503: grpc.StatusCode.UNAVAILABLE}


class LlamaCpp(backend_pb2_grpc.BackendServicer):
    """One model at a time."""

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._engine: Engine | None = None
        self._identity = ""
        self._free_calls = threading.Semaphore(CALL_LIMIT)

    def Health(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.Reply:
        return backend_pb2.Reply(message=b"OK")

    def Status(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.StatusResponse:
        if self._loading.locked():
            return backend_pb2.StatusResponse(state="BUSY")
        return backend_pb2.StatusResponse(state="UNINITIALIZED" if self._engine is None else "READY")

    def Free(self, request: backend_pb2.HealthMessage, context: grpc.ServicerContext) -> backend_pb2.Result:
        self._engine = None
        return backend_pb2.Result(success=True)

    def LoadModel(self, request: backend_pb2.ModelOptions, context: grpc.ServicerContext) -> backend_pb2.Result:
        with self._loading:
            self._engine = None
            try:
                engine = Engine(request)
            except (LoadFailed, parameters.BadOption) as error:
                serving.log(str(error))
                return backend_pb2.Result(success=False, message=str(error))
            self._engine, self._identity = engine, request.Model
        return backend_pb2.Result(success=True, message="loaded")

    def Predict(self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext) -> backend_pb2.Reply:
        return replies.joined(list(self._generate(request, context)))

    def PredictStream(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> Iterator[backend_pb2.Reply]:
        yield from self._generate(request, context)

    def Embedding(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> backend_pb2.EmbeddingResult:
        engine = self._model(request, context)
        try:
            vector, tokens = engine.embed(list(request.EmbeddingTokens) or request.Embeddings or request.Prompt)
        except Refused as error:
            _abort(error, context)
        return backend_pb2.EmbeddingResult(embeddings=vector, dim=len(vector), tokens=tokens, prompt_tokens=tokens)

    def TokenizeString(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> backend_pb2.TokenizationResponse:
        engine = self._model(request, context)
        try:
            tokens = engine.tokenize(request.Prompt)
        except Refused as error:
            _abort(error, context)
        return backend_pb2.TokenizationResponse(length=len(tokens), tokens=tokens)

    def _model(self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext) -> Engine:
        engine = self._engine
        if engine is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "model not loaded")
        serving.check_identity(request.ModelIdentity, self._identity, context)
        return engine

    def _generate(
        self, request: backend_pb2.PredictOptions, context: grpc.ServicerContext
    ) -> Iterator[backend_pb2.Reply]:
        engine = self._model(request, context)
        try:
            body = bodies.body(request)
        except bodies.BadRequest as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if not self._free_calls.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{CALL_LIMIT} calls are running or waiting")
        generation = Generation(engine, body, serving.ended(context), self._free_calls.release)
        try:
            yield from generation
        except Refused as error:
            _abort(error, context)
        if generation.finish_reason:
            # The protocol has no field for it, and `length` cannot always be told from the counts.
            context.set_trailing_metadata((("finish-reason", generation.finish_reason),))


def _abort(error: Refused, context: grpc.ServicerContext) -> NoReturn:
    context.abort(_STATUS.get(error.code, grpc.StatusCode.INTERNAL), str(error))
    raise AssertionError("abort does not return")


def main(argv: list[str]) -> int:
    address = serving.parse_address(argv)
    stopping = threading.Event()
    serving.stop_on_signals(stopping)
    return serving.serve(LlamaCpp(), address, stopping)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    # Threads of the engine may still run; the interpreter's own way out would pull its memory from under them.
    os._exit(code)
