"""What the model process gives without anything before it: a grpc.aio client, a process of its own.

`python -m tests.bench.direct` reads one JSON object from standard input and writes one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass
from typing import Any

import grpc
import uvloop

from localai.inference.process_secrets import metadata
from protos import backend_pb2, backend_pb2_grpc
from tests.bench.load import percentile


@dataclass(kw_only=True)
class Plan:
    """What is asked, and by how many at once."""

    address: str
    identity: str
    secret: str | None = None
    connections: int = 1
    warm_s: float = 0.5
    seconds: float = 3.0
    stream: bool = False


async def _main(plan: Plan) -> dict[str, Any]:
    latencies: list[float] = []
    chunks = 0
    began = time.perf_counter()
    count_from, until = began + plan.warm_s, began + plan.warm_s + plan.seconds
    shown = metadata(plan.secret)
    async with grpc.aio.insecure_channel(plan.address) as channel:
        stub = backend_pb2_grpc.BackendStub(channel)
        message = backend_pb2.Message(role="user", content="hello")
        options = backend_pb2.PredictOptions(ModelIdentity=plan.identity, Messages=[message], UseTokenizerTemplate=True)

        async def work() -> None:
            nonlocal chunks
            while (sent_at := time.perf_counter()) < until:
                if plan.stream:
                    async for _ in stub.PredictStream(options, metadata=shown):
                        chunks += count_from <= time.perf_counter() < until
                else:
                    await stub.Predict(options, metadata=shown)
                if count_from <= (now := time.perf_counter()) < until:
                    latencies.append(now - sent_at)

        await asyncio.gather(*(work() for _ in range(plan.connections)))
    return {
        "seconds": plan.seconds,
        "requests": len(latencies),
        "p50_ms": percentile(latencies, 50) * 1000,
        "p99_ms": percentile(latencies, 99) * 1000,
        "chunks": chunks,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(uvloop.run(_main(Plan(**json.load(sys.stdin))))) + "\n")
