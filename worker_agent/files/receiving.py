"""How are the bytes of a file received at the speed of the disk?

httpx2's own transport hands over each 64 KiB through several layers of Python: two thirds of what receiving a file
cost. The standard library's client reads straight into memory; this transport puts it below httpx2, so that callers see
no other.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator

import httpx2

#: Read at once, at most: few calls, and little memory for each transfer.
CHUNK_BYTES = 1024 * 1024


class FileTransport(httpx2.BaseTransport):
    """One connection for each request, closed with its answer: a file is long, and a connection is not."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        """``trust`` judges certificates; without it the system's authorities do."""
        self._trust = trust

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises TransportError."""
        limits = request.extensions.get("timeout", {})
        connection = _connection(request.url, limits.get("connect"), self._trust)
        try:
            connection.connect()
            connection.sock.settimeout(limits.get("read"))
            path = request.url.raw_path.decode("ascii")
            connection.request(request.method, path, headers=dict(request.headers))
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _translated(error) from error
        except BaseException:
            connection.close()
            raise
        return httpx2.Response(answer.status, headers=answer.getheaders(), stream=_Body(connection, answer))


class _Body(httpx2.SyncByteStream):
    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self._connection, self._answer = connection, answer

    def __iter__(self) -> Iterator[bytes]:
        try:
            while chunk := self._answer.read1(CHUNK_BYTES):
                yield chunk
        except (OSError, http.client.HTTPException) as error:
            raise _translated(error) from error
        if self._answer.length:
            raise httpx2.RemoteProtocolError(f"the connection ended {self._answer.length} bytes before the file")

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


def _connection(url: httpx2.URL, connect_s: float | None, trust: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if url.scheme == "https":
        return http.client.HTTPSConnection(url.host, url.port, timeout=connect_s, context=trust)
    return http.client.HTTPConnection(url.host, url.port, timeout=connect_s)


def _translated(error: OSError | http.client.HTTPException) -> httpx2.TransportError:
    """What httpx2's own transport would raise."""
    if isinstance(error, TimeoutError):
        return httpx2.ReadTimeout("timed out")
    if isinstance(error, OSError):
        return httpx2.NetworkError(str(error))
    return httpx2.RemoteProtocolError(f"{type(error).__name__}: {error}")
