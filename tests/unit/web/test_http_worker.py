"""Requests that the HTTP server refuses before the application are answered in the shape of the API."""

from __future__ import annotations

import json

import pytest
from gunicorn.http import errors as http_errors

from web.http_worker import response, status_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (http_errors.InvalidRequestLine("x"), 400),
        (http_errors.InvalidHeader("x"), 400),
        (http_errors.InvalidHTTPVersion("x"), 400),
        (http_errors.InvalidChunkSize(b"x"), 400),
        (http_errors.LimitRequestLine(1, 2), 414),
        (http_errors.LimitRequestHeaders("x"), 431),
        (http_errors.UnsupportedTransferCoding("x"), 501),
        (http_errors.InvalidResponseHeader("x"), 500),
        (RuntimeError("a secret"), 500),
    ],
)
def test_every_error_of_the_http_server_has_a_status_and_an_envelope(error: Exception, status: int) -> None:
    assert status_of(error)[0] == status
    head, _, body = response(error, "r1").partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert b"Content-Type: application/json" in head and b"X-Request-Id: r1" in head
    assert f"Content-Length: {len(body)}".encode() in head
    found = json.loads(body)["error"]
    assert found.keys() == {"message", "type", "code", "param"}
    assert "secret" not in found["message"]
    assert isinstance(json.loads(response(error, "r1", agent=True).partition(b"\r\n\r\n")[2])["error"], str)


def test_a_long_request_line_is_not_repeated_whole() -> None:
    assert len(response(http_errors.InvalidRequestLine("x" * 4000), "r1")) < 1000
