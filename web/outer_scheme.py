"""Scheme of a request as its client used it, for requests that come through a proxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Any

HEADER = "X-Forwarded-Proto"
_KEY = "HTTP_X_FORWARDED_PROTO"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class OuterScheme:
    """WSGI middleware: sets `wsgi.url_scheme` from X-Forwarded-Proto if the peer is a trusted proxy.

    The first part counts, in any case; every other header about the scheme is ignored.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], trusted: Iterable[str]) -> None:
        self._application = application
        self._trusted = tuple(ipaddress.ip_network(text, strict=False) for text in trusted)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if _KEY in environ and self._is_trusted(environ):
            scheme = str(environ[_KEY]).partition(",")[0].strip().lower()
            if scheme in ("http", "https"):
                environ["wsgi.url_scheme"] = scheme
        return self._application(environ, start_response)

    def _is_trusted(self, environ: Mapping[str, Any]) -> bool:
        try:
            peer = ipaddress.ip_address(str(environ.get("REMOTE_ADDR", "")).partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(peer, "ipv4_mapped", None)
        return any((mapped or peer) in network for network in self._trusted)
