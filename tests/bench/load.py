"""The load generator, a process of its own: raw HTTP/1.1 over asyncio, because a client that is slow measures itself.

`python -m tests.bench.load` reads one JSON object from standard input and writes one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import uvloop

_END_OF_HEAD = b"\r\n\r\n"
_END_OF_CHUNKS = b"0\r\n\r\n"


@dataclass(kw_only=True)
class Plan:
    """What is asked, how often, and by how many at once."""

    port: int
    body: str
    key: str = ""
    path: str = "/v1/chat/completions"
    connections: int = 1
    #: Answers before this moment are not counted.
    warm_s: float = 0.5
    seconds: float = 3.0
    #: Between an answer and the next request of a connection.
    pause_s: float = 0.0
    stream: bool = False
    #: Each connection asks once and the run lasts until all are answered, at most `seconds`.
    once: bool = False
    #: Drop every connection once each has got a chunk.
    abandon: bool = False

    def request(self) -> bytes:
        body = self.body.encode()
        head = (
            f"POST {self.path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


@dataclass
class Seen:
    """What came back."""

    latencies: list[float] = field(default_factory=list)
    first_chunks: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    chunks: int = 0
    answered: int = 0
    broken: int = 0


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._sent_at = self._last_at = 0.0
        self.got_chunk = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop has classes of its own
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._run.plan.stream:
            self._received_chunks(data)
            return
        self._buffer += data
        head = self._buffer.find(_END_OF_HEAD)
        if head < 0:
            return
        length = _length(self._buffer[:head])
        if len(self._buffer) >= head + 4 + length:
            self._answered(bytes(self._buffer[9:12]).decode())

    def connection_lost(self, error: Exception | None) -> None:
        self._run.lost(self)

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _received_chunks(self, data: bytes) -> None:
        now, run = time.perf_counter(), self._run
        count = data.count(b"data: ")
        if count:
            if not self.got_chunk:
                self.got_chunk = True
                run.seen.first_chunks.append(now - self._sent_at)
                run.chunk_came()
            else:
                run.seen.gaps.append(now - self._last_at)
            self._last_at = now
        if not self._buffer:
            self._buffer += data[:64]
        if run.counts(now):
            run.seen.chunks += count
        # A head may end in a zero too, when it comes alone.
        if data == _END_OF_CHUNKS or data.endswith(b"\r\n" + _END_OF_CHUNKS):
            self._answered(bytes(self._buffer[9:12]).decode())

    def _answered(self, status: str) -> None:
        run, now = self._run, time.perf_counter()
        self._buffer.clear()
        if run.counts(now):
            run.seen.latencies.append(now - self._sent_at)
            run.seen.statuses[status] = run.seen.statuses.get(status, 0) + 1
        if run.plan.once:
            run.done(self)
        elif run.plan.pause_s:
            run.loop.call_later(run.plan.pause_s, self._send)
        else:
            self._send()

    def _send(self) -> None:
        if self._transport is not None and not self._run.over:
            self.got_chunk = False
            self._sent_at = time.perf_counter()
            self._transport.write(self._run.bytes)


class Run:
    """All connections of one plan."""

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop) -> None:
        self.plan, self.loop, self.seen, self.bytes = plan, loop, Seen(), plan.request()
        self.over = False
        self._connections: list[Connection] = []
        self._left = plan.connections
        self._waiting_for_chunk = plan.connections
        self._finished = loop.create_future()
        self._count_from = self._count_until = float("inf")

    async def run(self) -> dict[str, Any]:
        plan = self.plan
        for _ in range(plan.connections):
            _, connection = await self.loop.create_connection(lambda: Connection(self), "127.0.0.1", plan.port)
            self._connections.append(connection)
        began = time.perf_counter()
        self._count_from = began if plan.once else began + plan.warm_s
        self._count_until = self._count_from + plan.seconds
        with suppress(TimeoutError):
            await asyncio.wait_for(self._finished, self._count_until - began)
        ended_at = min(time.perf_counter(), self._count_until)
        monotonic = time.monotonic()
        self.over = True
        for connection in self._connections:
            connection.drop()
        return _report(self.seen, ended_at - self._count_from, monotonic)

    def counts(self, now: float) -> bool:
        return self._count_from <= now < self._count_until

    def done(self, connection: Connection) -> None:
        self._left -= 1
        if self._left == 0 and not self._finished.done():
            self._finished.set_result(None)

    def chunk_came(self) -> None:
        self._waiting_for_chunk -= 1
        if self.plan.abandon and self._waiting_for_chunk == 0 and not self._finished.done():
            self._finished.set_result(None)

    def lost(self, connection: Connection) -> None:
        if not self.over:
            self.seen.broken += 1
            self.done(connection)


def _length(head: bytearray) -> int:
    lower = bytes(head).lower()
    at = lower.find(b"content-length:")
    return int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0


def _report(seen: Seen, seconds: float, monotonic: float) -> dict[str, Any]:
    return {
        "seconds": seconds,
        "requests": len(seen.latencies),
        "statuses": seen.statuses,
        "broken": seen.broken,
        "p50_ms": percentile(seen.latencies, 50) * 1000,
        "p99_ms": percentile(seen.latencies, 99) * 1000,
        "chunks": seen.chunks,
        "first_chunk_p50_ms": percentile(seen.first_chunks, 50) * 1000,
        "gap_p99_ms": percentile(seen.gaps, 99) * 1000,
        "ended_at": monotonic,
    }


def percentile(values: Sequence[float], share: float) -> float:
    """A value of the list that `share` percent of it do not exceed; 0 of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))] if ordered else 0.0


async def _main(plan: Plan) -> dict[str, Any]:
    return await Run(plan, asyncio.get_running_loop()).run()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(uvloop.run(_main(Plan(**json.load(sys.stdin))))) + "\n")
