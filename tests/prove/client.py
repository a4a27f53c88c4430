"""Many connections that ask a frontend, cheaply: a slow client would be what is measured."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.acceptance.cluster import API_KEY


@dataclass
class Connection:
    """One client, which keeps its connection."""

    url: str
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = field(default=None, repr=False)

    async def ask(self, path: str, body: Any) -> tuple[int, str]:
        """Status and text of the answer. Raises OSError, IncompleteReadError where the connection breaks."""
        try:
            reader, writer = self._streams or await self._connect()
            writer.write(_request(path, body))
            head = await reader.readuntil(b"\r\n\r\n")
            text = await reader.readexactly(_length(head))
        except BaseException:
            self.close()
            raise
        return int(head[9:12]), text.decode(errors="replace")

    async def chat(self, model: str, text: str = "hello") -> tuple[int, str]:
        return await self.ask("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": text}]})

    def close(self) -> None:
        if self._streams is not None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed already
                self._streams[1].close()
            self._streams = None

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.url)
        self._streams = await asyncio.open_connection(parts.hostname, parts.port)
        return self._streams


def _request(path: str, body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: prove\r\nAuthorization: Bearer {API_KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":", 1)[1])
    raise ValueError("an answer without a length")
