"""Who may call which route: every view says it, and a view that does not say it cannot be called.

A static admin key is the only kind of user so far, so a user and an admin are the same caller; routes name the one they
will need.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from flask import Flask, Response, current_app, request

from localai import callers, metrics
from localai.callers import Caller
from localai.errors import LocalAIError, NotAuthenticated, TooManyLogins
from web import connections
from web.auth.sessions import COOKIE, CSRF_HEADER, Sessions, sessions
from web.errors import WriteWithoutToken
from web.identity import Keys, presented_keys
from web.request_log import client_address, note
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
        shown = next((key for key in presented_keys(request.headers) if keys.accept(key)), None)
        name = _check_cookies(keys, sessions()) if shown is None else callers.key_name(shown)
        note(key=name)
        callers.begin(Caller(client_address(), name))
        connections.vouch()

    def end(response: Response) -> Response:
        """The view has checked the credential of a node; files for it take long."""
        view = app.view_functions.get(request.endpoint or "")
        if view is not None and access_of(view) is Access.NODE and response.status_code < 400:
            connections.vouch()
        return response

    app.before_request(check)
    app.after_request(end)


def count_refusal(error: LocalAIError) -> None:
    """Count a credential that was refused."""
    view = current_app.view_functions.get(request.endpoint or "")
    if view is None or not isinstance(error, NotAuthenticated | TooManyLogins):
        return
    if access_of(view) is Access.ANYBODY:
        kind = "login"
    elif access_of(view) is Access.NODE:
        kind = "node" if request.headers.get("Authorization") else ""
    elif any(presented_keys(request.headers)):
        kind = "key"
    else:
        kind = "session" if request.cookies.get(COOKIE) or request.cookies.get("token") else ""
    if kind:
        metrics.CREDENTIALS_REFUSED.labels(kind).inc()


def _check_cookies(keys: Keys, known: Sessions) -> str:
    """The short digest of the key behind a cookie.

    A browser sends cookies also with what another site makes it write; a header of ours that site cannot add.
    """
    session, shown = request.cookies.get(COOKIE), request.headers.get(CSRF_HEADER, "")
    if session and known.accept(session):
        may_write, name = known.may_write(session, shown), known.key_name(session)
    elif keys.accept(request.cookies.get("token", "")):
        may_write, name = bool(shown), callers.key_name(request.cookies.get("token", ""))
    else:
        raise NotAuthenticated
    if request.method not in _READS and not may_write:
        raise WriteWithoutToken
    return name
