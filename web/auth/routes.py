"""Signing in and out: POST /api/auth/token-login, POST /api/auth/logout, GET /api/auth/status."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, jsonify, request

from localai.callers import key_name
from localai.errors import BadInput, NotAuthenticated
from web.access import Access, open_to
from web.auth.attempts import attempts
from web.auth.sessions import COOKIE, SESSION_S, sessions
from web.body import read_json_object, takes
from web.connections import client_of
from web.limits import LOGIN_BODY
from web.request_log import client_address, note

blueprint = Blueprint("auth", __name__)

_LONGEST_KEY = 4096
#: Who a static key is; there are no other users yet.
_ADMIN = {"id": "legacy-api-key", "name": "API key", "role": "admin"}


@blueprint.post("/api/auth/token-login")
@open_to(Access.ANYBODY)
@takes(LOGIN_BODY)
def token_login() -> Response:
    """Exchange the admin key for a session. The key itself goes into no cookie."""
    address = client_of(client_address())
    attempts().check(address)
    token = _token(read_json_object())
    value = sessions().begin(token)
    if value is None:
        attempts().failed(address)
        raise NotAuthenticated("this key is not the admin key of this server")
    note(key=key_name(token))
    response = jsonify({"user": _ADMIN, "csrf_token": sessions().csrf_token(value), "expires_in": SESSION_S})
    response.set_cookie(COOKIE, value, max_age=SESSION_S, httponly=True, samesite="Strict", secure=_by_https())
    return response


@blueprint.post("/api/auth/logout")
@open_to(Access.USER)
def logout() -> Response:
    """End the session on every frontend and take it from the browser."""
    value = request.cookies.get(COOKIE)
    if value:
        sessions().end(value)
    response = jsonify({"message": "logged out"})
    forget(response)
    return response


@blueprint.get("/api/auth/status")
@open_to(Access.ANYBODY)
def status() -> Response:
    """Whether a key is needed (it always is) and whether the cookie of this browser stands for one."""
    value = request.cookies.get(COOKIE)
    signed_in = sessions().accept(value)
    body: dict[str, Any] = {
        "authEnabled": True,
        "providers": ["token"],
        "hasUsers": False,
        "registrationMode": "",
        "user": _ADMIN if signed_in else None,
    }
    if signed_in:
        body["csrf_token"] = sessions().csrf_token(value)
    return jsonify(body)


def forget(response: Response) -> None:
    """Take the cookie away."""
    response.delete_cookie(COOKIE, httponly=True, samesite="Strict", secure=_by_https())


def _token(body: dict[str, Any]) -> str:
    """The key in a body, without what copying put around it. The message never repeats it."""
    token = body.get("token")
    if not isinstance(token, str):
        raise BadInput("token", None, "", "token: the admin key is missing")
    token = token.strip()
    if not token:
        raise BadInput("token", None, "", "token: the admin key is empty")
    if len(token) > _LONGEST_KEY or not token.isprintable():
        raise BadInput("token", None, "", "token: a key is one line of text; copy it again without line breaks inside")
    return token


def _by_https() -> bool:
    """Whether the browser uses https, also to a trusted proxy (`web.outer_scheme`)."""
    return request.is_secure
