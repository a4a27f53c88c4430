"""Who may call which route: every view says it, and a view that does not say it cannot be called.

A static admin key is the only kind of user so far, so a user and an admin are the same caller; routes name the one they
will need.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from flask import Flask, Response, request

from localai.errors import NotAuthenticated
from web import connections
from web.auth.sessions import COOKIE, CSRF_HEADER, Sessions, sessions
from web.errors import WriteWithoutToken
from web.identity import Keys, presented_keys
from web.services import services

View = TypeVar("View", bound=Callable[..., Any])

_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Access(Enum):
    """What a caller must show."""

    ANYBODY = "anybody"
    USER = "user"
    ADMIN = "admin"
    #: The view checks the credential of the node it names, or the registration token.
    NODE = "node"


def open_to(access: Access) -> Callable[[View], View]:
    """Say who may call a view."""

    def mark(view: View) -> View:
        view.access = access  # type: ignore[attr-defined]
        return view

    return mark


def access_of(view: Callable[..., Any]) -> Access:
    """Who may call a view; admins only where it does not say."""
    found = getattr(view, "access", Access.ADMIN)
    assert isinstance(found, Access)
    return found


def check_access(app: Flask) -> None:
    """Refuse a request before its view is called. Raises NotAuthenticated or WriteWithoutToken inside the request."""

    def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        if view is None or access_of(view) in (Access.ANYBODY, Access.NODE):
            return
        keys = services().keys
        if not any(keys.accept(key) for key in presented_keys(request.headers)):
            _check_cookies(keys, sessions())
        connections.vouch()

    def end(response: Response) -> Response:
        """The view has checked the credential of a node; files for it take long."""
        view = app.view_functions.get(request.endpoint or "")
        if view is not None and access_of(view) is Access.NODE and response.status_code < 400:
            connections.vouch()
        return response

    app.before_request(check)
    app.after_request(end)


def _check_cookies(keys: Keys, known: Sessions) -> None:
    """A browser sends cookies also with what another site makes it write; a header of ours that site cannot add."""
    session, shown = request.cookies.get(COOKIE), request.headers.get(CSRF_HEADER, "")
    if session and known.accept(session):
        may_write = known.may_write(session, shown)
    elif keys.accept(request.cookies.get("token", "")):
        may_write = bool(shown)
    else:
        raise NotAuthenticated
    if request.method not in _READS and not may_write:
        raise WriteWithoutToken
