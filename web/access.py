"""Who may call which route: every view says it, and a view that does not say it cannot be called.

A static admin key is the only kind of user so far, so a user and an admin are the same caller; routes name the one they
will need.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from flask import Flask, request

from localai.errors import NotAuthenticated
from web.identity import Keys, presented_keys

View = TypeVar("View", bound=Callable[..., Any])


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


def check_access(app: Flask, keys: Keys) -> None:
    """Refuse a request before its view is called. Raises NotAuthenticated inside the request."""

    def check() -> None:
        view = app.view_functions.get(request.endpoint or "")
        if view is None or access_of(view) in (Access.ANYBODY, Access.NODE):
            return
        if not any(keys.accept(key) for key in presented_keys(request.headers, request.cookies)):
            raise NotAuthenticated

    app.before_request(check)
