"""One header of a trusted proxy gives the outer scheme, and no other header matters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from web.outer_scheme import OuterScheme

pytestmark = pytest.mark.unit


def scheme(value: str | None, peer: str = "127.0.0.1", **more: str) -> str:
    seen: list[str] = []

    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        seen.append(environ["wsgi.url_scheme"])
        return []

    environ = {"wsgi.url_scheme": "http", "REMOTE_ADDR": peer, **more}
    if value is not None:
        environ["HTTP_X_FORWARDED_PROTO"] = value
    OuterScheme(application, ("127.0.0.1", "::1", "10.0.0.0/8"))(environ, None)
    return seen[0]


@pytest.mark.parametrize("value", ["https", "HTTPS", " https , http", "Https,https"])
def test_the_first_part_counts_in_any_case(value: str) -> None:
    assert scheme(value) == "https"


@pytest.mark.parametrize("value", [None, "", "http", "http, https", "ftp", "on", '"https"'])
def test_anything_else_leaves_the_scheme(value: str | None) -> None:
    assert scheme(value) == "http"


@pytest.mark.parametrize(
    ("peer", "wanted"),
    [("10.1.2.3", "https"), ("::1", "https"), ("::ffff:10.1.2.3", "https"), ("192.0.2.1", "http"), ("", "http")],
)
def test_only_trusted_proxies_are_believed(peer: str, wanted: str) -> None:
    assert scheme("https", peer) == wanted


def test_other_headers_about_the_scheme_are_ignored() -> None:
    others = {"HTTP_X_FORWARDED_SSL": "on", "HTTP_X_FORWARDED_PROTOCOL": "ssl", "HTTP_FRONT_END_HTTPS": "on"}
    assert scheme(None, **others) == "http"
    assert scheme("https", HTTP_X_FORWARDED_SSL="off") == "https"
