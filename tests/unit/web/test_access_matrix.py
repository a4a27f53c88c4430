"""Every route and every method against every kind of credential. A new route needs an entry in the table."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask

from localai.errors import BadInput
from tests.fakes.web import JOIN_TOKEN, KEY, FakeNode, WebBench
from web.access import Access, access_of
from web.app import make_routes
from web.auth.sessions import COOKIE, CSRF_HEADER, sessions

pytestmark = pytest.mark.unit

ANYBODY, KEY_HOLDER, REGISTRATION = "anybody", "admin key or session", "registration token or join token"
NODE, NODE_OR_SECRET, APPROVED = "the node itself", "the node or its secret", "the node, approved"

#: Who may call what. "read" and "write" of key holders differ in the header that a session must show.
TABLE: Mapping[str, str] = {
    "GET /": ANYBODY,
    "GET /login": ANYBODY,
    "GET /assets/<version>/<path:name>": ANYBODY,
    "GET /healthz": ANYBODY,
    "GET /readyz": ANYBODY,
    "GET /api/auth/status": ANYBODY,
    "POST /api/auth/token-login": ANYBODY,
    "POST /api/auth/logout": KEY_HOLDER,
    "GET /version": KEY_HOLDER,
    "GET /metrics": KEY_HOLDER,
    "GET /app": KEY_HOLDER,
    "GET /app/": KEY_HOLDER,
    "GET /app/chat": KEY_HOLDER,
    "GET /app/jobs": KEY_HOLDER,
    "GET /app/jobs/<job_id>": KEY_HOLDER,
    "GET /app/models": KEY_HOLDER,
    "GET /app/nodes": KEY_HOLDER,
    "GET /models": KEY_HOLDER,
    "GET /v1/models": KEY_HOLDER,
    "GET /v1/models/<path:name>": KEY_HOLDER,
    "POST /chat/completions": KEY_HOLDER,
    "POST /completions": KEY_HOLDER,
    "POST /embeddings": KEY_HOLDER,
    "POST /rerank": KEY_HOLDER,
    "POST /v1/chat/completions": KEY_HOLDER,
    "POST /v1/completions": KEY_HOLDER,
    "POST /v1/embeddings": KEY_HOLDER,
    "POST /v1/rerank": KEY_HOLDER,
    "POST /v1/engines/<path:engine>/completions": KEY_HOLDER,
    "POST /v1/engines/<path:engine>/embeddings": KEY_HOLDER,
    "POST /backend/load": KEY_HOLDER,
    "POST /backend/shutdown": KEY_HOLDER,
    "POST /v1/backend/load": KEY_HOLDER,
    "POST /v1/backend/shutdown": KEY_HOLDER,
    "GET /api/jobs": KEY_HOLDER,
    "GET /api/jobs/<job_id>": KEY_HOLDER,
    "GET /api/jobs/<job_id>/events": KEY_HOLDER,
    "POST /api/jobs/<job_id>/cancel": KEY_HOLDER,
    "POST /api/jobs/<job_id>/force": KEY_HOLDER,
    "POST /api/jobs/<job_id>/retry": KEY_HOLDER,
    "GET /api/models": KEY_HOLDER,
    "POST /api/models//load-cancel": KEY_HOLDER,
    "POST /api/models//load-retry": KEY_HOLDER,
    "GET /api/models//load-status": KEY_HOLDER,
    "POST /api/models/<path:name>/load-cancel": KEY_HOLDER,
    "POST /api/models/<path:name>/load-retry": KEY_HOLDER,
    "GET /api/models/<path:name>/load-status": KEY_HOLDER,
    "POST /api/node-invitations": KEY_HOLDER,
    "GET /api/nodes": KEY_HOLDER,
    "GET /api/nodes/<node_id>": KEY_HOLDER,
    "DELETE /api/nodes/<node_id>": KEY_HOLDER,
    "POST /api/nodes/<node_id>/approve": KEY_HOLDER,
    "GET /api/nodes/<node_id>/backend-logs": KEY_HOLDER,
    "GET /api/nodes/<node_id>/backend-logs/<path:model>": KEY_HOLDER,
    "POST /api/nodes/<node_id>/drain": KEY_HOLDER,
    "GET /api/nodes/<node_id>/models": KEY_HOLDER,
    "POST /api/nodes/<node_id>/models/unload": KEY_HOLDER,
    "POST /api/nodes/<node_id>/resume": KEY_HOLDER,
    "POST /api/node/register": REGISTRATION,
    "DELETE /api/node/<node_id>": NODE,
    "POST /api/node/<node_id>/deregister": NODE,
    "POST /api/node/<node_id>/heartbeat": NODE,
    "GET /api/node/<node_id>/models": NODE,
    "POST /api/node/<node_id>/drain": NODE_OR_SECRET,
    "POST /api/node/<node_id>/resume": NODE_OR_SECRET,
    "POST /api/node/<node_id>/jobs/<job_id>/claim": APPROVED,
    "POST /api/node/<node_id>/report": APPROVED,
    "GET /api/node/<node_id>/files/<path:path>": APPROVED,
}

OWN, OTHER, PENDING, REMOVED = (f"{number}b2f8a58-0d53-4c2f-9f0c-6c1f5f2b7a11" for number in "1234")
TOKENS = {node: f"credential-of-{node}" for node in (OWN, OTHER, PENDING, REMOVED)}
SECRET, TOKEN = "secret-in-the-data-folder", "registration-token"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
READS = ("GET", "HEAD", "OPTIONS")

#: The view was called, whatever it answered.
OPEN = 0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBench]:
    bench = WebBench(
        tmp_path_factory.mktemp("matrix"),
        operations=SimpleNamespace(gives=lambda node, path: True),
        drains=Absent(),
        replicas=Absent(),
    )
    nodes: Any = bench.nodes
    nodes.check_credential = lambda node, token: TOKENS.get(node) == token and node != REMOVED
    nodes.check_secret = lambda node, secret: (node, secret) == (OWN, SECRET)
    nodes.heard_of_replaced = lambda node, token: False
    nodes.get = lambda node: FakeNode(approved=node != PENDING) if node in (OWN, OTHER, PENDING) else None
    nodes.was_removed = lambda node: node == REMOVED
    nodes.heartbeat = nodes.deregister = nodes.register = nothing_here
    bench.app.view_functions = {name: reachable(view) for name, view in bench.app.view_functions.items()}
    yield bench
    bench.inference.close()


class Absent:
    """A service of which nothing is known."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return nothing_here


def nothing_here(*_: Any, **__: Any) -> Any:
    raise BadInput("anything", "", "nothing")


def reachable(view: Callable[..., Any]) -> Callable[..., Any]:
    """A view that only says that it was called; those that check the credential themselves stay."""
    if access_of(view) is Access.NODE:
        return view

    @functools.wraps(view)
    def called(**_: Any) -> Any:
        return "reached", 299

    return called


def rules(app: Flask) -> dict[str, set[str]]:
    """Methods by rule, without those that Flask adds."""
    found: dict[str, set[str]] = {}
    for rule in app.url_map.iter_rules():
        found.setdefault(rule.rule, set()).update((rule.methods or set()) - {"HEAD", "OPTIONS"})
    return found


def address(rule: str, node: str = OWN) -> str:
    parts = {"node_id": node, "job_id": OWN}
    return re.sub(r"<(?:path:)?(\w+)>", lambda found: parts.get(found.group(1), "m"), rule)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def credentials(app: Flask, node: str) -> dict[str, dict[str, str]]:
    """Headers by the kind of credential."""
    with app.app_context():
        session = sessions().begin(KEY)
        assert session is not None
        csrf = sessions().csrf_token(session)
    cookie = {"Cookie": f"{COOKIE}={session}"}
    return {
        "none": {},
        "wrong key": bearer("wrong"),
        "empty key": {"Authorization": "Bearer ", "x-api-key": ""},
        "admin key": bearer(KEY),
        "admin key in a header of its own": {"x-api-key": KEY},
        "session": cookie,
        "session with its token": {**cookie, CSRF_HEADER: csrf},
        "session with another token": {**cookie, CSRF_HEADER: "0" * 64},
        "key in a cookie": {"Cookie": f"token={KEY}"},
        "registration token": bearer(TOKEN),
        "registration token as a key": {"x-api-key": TOKEN},
        "join token": bearer(JOIN_TOKEN),
        "credential of the node": bearer(TOKENS[node]),
        "credential of another node": bearer(TOKENS[OTHER]),
        "secret of the node": bearer(SECRET),
    }


def expected(audience: str, method: str, node: str) -> dict[str, int]:
    """The refusal of each credential, or OPEN."""
    known = dict.fromkeys(CREDENTIALS, 404 if node == REMOVED and audience not in (ANYBODY, KEY_HOLDER) else 401)
    match audience:
        case "anybody":
            return dict.fromkeys(CREDENTIALS, OPEN)
        case "admin key or session":
            by_browser = OPEN if method in READS else 403
            known |= {"admin key": OPEN, "admin key in a header of its own": OPEN, "session with its token": OPEN}
            known |= dict.fromkeys(("session", "session with another token", "key in a cookie"), by_browser)
        case "registration token or join token":
            known = dict.fromkeys(CREDENTIALS, 401) | {"registration token": OPEN, "join token": OPEN}
        case _ if node != REMOVED:
            waits = audience == APPROVED and node == PENDING
            known["credential of the node"] = 403 if waits else OPEN
            if audience == NODE_OR_SECRET and node == OWN:
                known["secret of the node"] = OPEN
    return known


CREDENTIALS = (
    "none",
    "wrong key",
    "empty key",
    "admin key",
    "admin key in a header of its own",
    "session",
    "session with its token",
    "session with another token",
    "key in a cookie",
    "registration token",
    "registration token as a key",
    "join token",
    "credential of the node",
    "credential of another node",
    "secret of the node",
)


def verdict(bench: WebBench, method: str, path: str, headers: Mapping[str, str], audience: str) -> int:
    """OPEN, or the status of the refusal."""
    token = headers.get("Authorization", "").removeprefix("Bearer ")
    body = {"name": "n", "address": "h:1", "token": token} if audience == REGISTRATION else {}
    client = bench.app.test_client(use_cookies=False)
    response = client.open(path, method=method, json=body, headers=dict(headers), buffered=True)
    status: int = response.status_code
    if audience in (ANYBODY, KEY_HOLDER):
        return OPEN if status == 299 else status
    missing = status == 404 and not response.get_json().get("removed")
    return OPEN if missing or status in (200, 201, 400) else status


@pytest.mark.parametrize("entry", TABLE)
def test_each_credential_opens_what_the_table_says(bench: WebBench, entry: str) -> None:
    method, _, rule = entry.partition(" ")
    audience = TABLE[entry]
    own = "<node_id>" in rule and audience != KEY_HOLDER
    for node in (OWN, PENDING, REMOVED) if own else (OWN,):
        shown = credentials(bench.app, node)
        found = {name: verdict(bench, method, address(rule, node), shown[name], audience) for name in CREDENTIALS}
        assert found == expected(audience, method, node), (entry, node)
        if method == "GET" and not own:
            heads = {name: verdict(bench, "HEAD", address(rule), shown[name], audience) for name in CREDENTIALS}
            assert heads == found, entry


def test_every_route_and_method_has_an_entry_and_no_other_is_in_the_table() -> None:
    found = {f"{method} {rule}" for rule, methods in rules(make_routes()).items() for method in methods}
    assert found == set(TABLE), "name who may call a new route"


def test_every_view_says_who_may_call_it() -> None:
    views = make_routes().view_functions
    assert not [name for name, view in views.items() if not hasattr(view, "access")]


def test_a_method_that_a_route_does_not_have_is_refused_to_everybody(bench: WebBench) -> None:
    for rule, methods in rules(bench.app).items():
        for method, headers in itertools.product(METHODS, ({}, bearer(KEY), bearer(TOKENS[OWN]), bearer(TOKEN))):
            if method not in methods:
                response = bench.app.test_client().open(address(rule), method=method, headers=headers, buffered=True)
                # Another rule may fit the address: `register` could be the id of a node.
                assert response.status_code in (404, 405), (method, rule)


def test_options_discloses_nothing_to_a_caller_without_a_credential(bench: WebBench) -> None:
    for rule in rules(bench.app):
        response = bench.app.test_client().options(address(rule), buffered=True)
        assert response.status_code == 401 or response.data == b"", rule
