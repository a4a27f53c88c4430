"""Who asks: the static admin keys in every form clients send them, and the credentials of nodes."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from werkzeug.datastructures import Headers

from localai.clock import boottime
from localai.errors import NodeRemoved, NotAuthenticated, NotAuthorized, NotFound, Replaced
from localai.ids import NodeId, is_uuid
from localai.nodes.credentials import hash_of

#: How long a node's credential is believed without asking the row again. An agent sends several calls a second.
CREDENTIAL_AGE_S = 5.0
#: More nodes than this have their credential read more often.
_CACHE_LIMIT = 10_000


class Keys:
    """The static admin keys. Only their digests are kept, and a comparison takes the same time for every key."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(_digest(key) for key in keys if key)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accept(self, key: str) -> bool:
        """Whether this is one of the keys."""
        shown = _digest(key)
        found = False
        for digest in self._digests:
            found |= hmac.compare_digest(digest, shown)
        return found

    def secret_of(self, key: str) -> bytes | None:
        """What sessions of this key are signed with; None where it is not one of the keys."""
        return _secret(_digest(key)) if self.accept(key) else None

    def name_of(self, secret: bytes) -> str:
        """The short digest of the key whose sessions are signed with a secret."""
        return next((digest.hex()[:8] for digest in self._digests if _secret(digest) == secret), "")

    def secrets(self) -> tuple[bytes, ...]:
        """What sessions of each key are signed with."""
        return tuple(_secret(digest) for digest in self._digests)


def presented_keys(headers: Headers) -> Iterator[str]:
    """Every key a request shows in its headers, in the order they are tried."""
    authorization = headers.get("Authorization", "").strip()
    if authorization:
        yield bearer(headers)
        yield authorization
    for name in ("x-api-key", "xi-api-key"):
        if value := headers.get(name):
            yield value


def bearer(headers: Headers) -> str:
    """The token of an `Authorization: Bearer` header, or the raw value of one without a scheme."""
    scheme, _, rest = headers.get("Authorization", "").strip().partition(" ")
    return rest.strip() if scheme.lower() == "bearer" and rest else scheme


class Node(Protocol):
    """A node's row."""

    @property
    def approved(self) -> bool: ...
    @property
    def address(self) -> str: ...


class Nodes(Protocol):
    """What the rows say about nodes."""

    def check_credential(self, node_id: NodeId, token: str) -> bool: ...
    def was_removed(self, node_id: NodeId) -> bool: ...
    def check_secret(self, node_id: NodeId, secret: str) -> bool: ...
    def heard_of_replaced(self, node_id: NodeId, token: str) -> bool: ...
    def get(self, node_id: NodeId) -> Node | None: ...


@dataclass(frozen=True, slots=True)
class ApprovedNode:
    """A node that was let in, and the address that it registered."""

    id: NodeId
    address: str


class NodeKeys:
    """The registration token, which opens the registration only, and the per-node credentials."""

    def __init__(
        self,
        nodes: Nodes,
        registration_token: str,
        *,
        is_join_token: Callable[[str], bool] = lambda token: False,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._nodes, self._is_join_token, self._clock = nodes, is_join_token, clock
        self._token = registration_token
        self._lock = threading.Lock()
        self._known: dict[tuple[str, bytes], float] = {}
        self._approved: dict[NodeId, tuple[float, ApprovedNode]] = {}

    def is_registration_token(self, token: str) -> bool:
        """Whether a worker may register with this token; any token does where none is set."""
        return not self._token or hmac.compare_digest(_digest(self._token), _digest(token))

    def require_registration(self, token: str) -> str | None:
        """The hash of a join token, None for the registration token. Raises NotAuthenticated for another text."""
        if self._token and self.is_registration_token(token):
            return None
        if self._is_join_token(token):
            return hash_of(token)
        if self._token:
            raise NotAuthenticated("the registration token is wrong: set LOCALAI_REGISTRATION_TOKEN on the worker")
        return None

    def require_node(self, node_id: str, token: str, *, secret_too: bool = False) -> NodeId:
        """The node a token belongs to. With ``secret_too`` the secret in its data folder counts as its credential.

        Raises NotFound for an unknown node, NodeRemoved for one that was removed, Replaced for a credential that a
        newer registration has ended, NotAuthenticated for a wrong token.
        """
        node = NodeId(node_id)
        if not is_uuid(node_id):
            raise NotFound("no such node")
        if not self._remembers(node, token) and not (secret_too and self._nodes.check_secret(node, token)):
            self._ask(node, token)
        return node

    def require_approved_node(self, node_id: str, token: str) -> ApprovedNode:
        """As `require_node`, for what only a node that was let in may do. Raises NotAuthorized for another."""
        node = self.require_node(node_id, token)
        with self._lock:
            until, known = self._approved.get(node, (0.0, None))
        if known is None or until <= self._clock():
            found = self._nodes.get(node)
            if found is None or not found.approved:
                raise NotAuthorized("this node waits for approval: `localai nodes approve` lets it in")
            known = ApprovedNode(node, found.address)
            with self._lock:
                self._approved[node] = (self._clock() + CREDENTIAL_AGE_S, known)
        return known

    def forget(self, node_id: str) -> None:
        """A node has changed: believe nothing that was known of its credential or its approval."""
        with self._lock:
            self._approved.pop(NodeId(node_id), None)
            for known in [known for known in self._known if known[0] == node_id]:
                del self._known[known]

    def _ask(self, node: NodeId, token: str) -> None:
        if not self._nodes.check_credential(node, token):
            if self._nodes.get(node) is None:
                raise NodeRemoved if self._nodes.was_removed(node) else NotFound("no such node")
            if self._nodes.heard_of_replaced(node, token):
                raise Replaced("another life of this node's agent is registered", node_id=node)
            raise NotAuthenticated("the credential of this node is wrong: it is part of the answer to its registration")
        with self._lock:
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            self._known[(node, _digest(token))] = self._clock() + CREDENTIAL_AGE_S

    def _remembers(self, node: NodeId, token: str) -> bool:
        with self._lock:
            return self._known.get((node, _digest(token)), 0.0) > self._clock()


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def _secret(digest: bytes) -> bytes:
    return hmac.new(digest, b"localai browser session", hashlib.sha256).digest()
