"""Scheme and client of a request as they were before a proxy, for requests that come through one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from web.proxies import Proxies

HEADER = "X-Forwarded-Proto"
#: The address of the client in a request's environment.
CLIENT = "localai.client"
_SCHEME_KEY, _HOPS_KEY = "HTTP_X_FORWARDED_PROTO", "HTTP_X_FORWARDED_FOR"


class OuterScheme:
    """WSGI middleware: sets `wsgi.url_scheme` from X-Forwarded-Proto if the peer is a trusted proxy, and the address
    of the client from X-Forwarded-For.

    Of the scheme the first part counts, in any case; every other header about the scheme is ignored.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], trusted: Iterable[str]) -> None:
        self._application = application
        self._proxies = Proxies(trusted)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        peer = str(environ.get("REMOTE_ADDR", ""))
        environ[CLIENT] = self._proxies.client_of(peer, str(environ.get(_HOPS_KEY, "")))
        if _SCHEME_KEY in environ and self._proxies.trusts(peer):
            scheme = str(environ[_SCHEME_KEY]).partition(",")[0].strip().lower()
            if scheme in ("http", "https"):
                environ["wsgi.url_scheme"] = scheme
        return self._application(environ, start_response)
