"""The ceiling in Python: an ASGI app with grpc.aio that does the least a front can do, without keys, routes or counting.

`python -m uvicorn tests.bench.asgi:app`, with the model process's address and model in two variables.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from localai.inference.process_secrets import metadata
from protos import backend_pb2, backend_pb2_grpc

ADDRESS, MODEL = os.environ["BENCH_ADDRESS"], os.environ["BENCH_MODEL"]
SHOWN = metadata(os.environ["BENCH_SECRET"])
_STUBS: list[Any] = []


def _stub() -> Any:
    if not _STUBS:
        _STUBS.append(backend_pb2_grpc.BackendStub(grpc.aio.insecure_channel(ADDRESS)))
    return _STUBS[0]


async def chat(request: Request) -> Response:
    asked = json.loads(await request.body())
    options = backend_pb2.PredictOptions(
        ModelIdentity=MODEL,
        Messages=[backend_pb2.Message(role=m["role"], content=m["content"]) for m in asked["messages"]],
        UseTokenizerTemplate=True,
    )
    if asked.get("stream"):
        return StreamingResponse(_events(options), media_type="text/event-stream")
    reply = await _stub().Predict(options, metadata=SHOWN)
    message = {"role": "assistant", "content": reply.message.decode()}
    body = _head("chat.completion") | {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.tokens},
    }
    return Response(json.dumps(body), media_type="application/json")


async def _events(options: backend_pb2.PredictOptions) -> AsyncIterator[bytes]:
    head = _head("chat.completion.chunk")
    async for reply in _stub().PredictStream(options, metadata=SHOWN):
        choice = {"index": 0, "delta": {"content": reply.message.decode()}, "finish_reason": None}
        yield b"data: " + json.dumps(head | {"choices": [choice]}).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _head(kind: str) -> dict[str, Any]:
    return {"id": "bench", "object": kind, "created": int(time.time()), "model": MODEL}


app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
