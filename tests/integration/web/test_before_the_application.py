"""What the HTTP server does before the application: refusals in JSON, and the scheme that a proxy names."""

from __future__ import annotations

import http.client
import json
import socket

import pytest

from tests.integration.web.bench import KEY, WebProcess
from tests.loopback import LIMIT_S

pytestmark = pytest.mark.integration


def ask(web: WebProcess, request: bytes) -> tuple[http.client.HTTPResponse, bytes]:
    with socket.create_connection(("127.0.0.1", web.settings.port), timeout=LIMIT_S) as connection:
        connection.sendall(request)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response, response.read()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(5000)) + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x-unknown\r\n\r\n", 501),
    ],
    ids=["no HTTP", "no header", "no version", "a long line", "many headers", "a coding"],
)
def test_a_refusal_of_the_http_server_is_json(web: WebProcess, request_: bytes, status: int) -> None:
    response, body = ask(web, request_)
    assert response.status == status
    assert response.headers["Content-Type"] == "application/json" and response.headers["X-Request-Id"]
    assert json.loads(body)["error"].keys() == {"message", "type", "code", "param"}


@pytest.mark.parametrize(
    ("headers", "secure"),
    [
        ("X-Forwarded-Proto: https\r\nX-FORWARDED-PROTOCOL: http\r\n", True),
        ("X-Forwarded-Proto: HTTPS, http\r\nX-Forwarded-Ssl: off\r\n", True),
        ("X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http\r\n", True),
        ("X-Forwarded-Proto: http\r\nX-Forwarded-Ssl: on\r\n", False),
        ("X-Forwarded-Ssl: on\r\n", False),
        ("", False),
    ],
)
def test_the_cookie_is_secure_exactly_if_the_outer_scheme_is_https(web: WebProcess, headers: str, secure: bool) -> None:
    content = json.dumps({"token": KEY})
    head = f"POST /api/auth/token-login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
    response, body = ask(web, f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
    assert response.status == 200, body
    assert ("Secure" in response.headers["Set-Cookie"]) is secure
