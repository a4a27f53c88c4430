"""What agents and administrators do with nodes: register, beat, approve, leave, look."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from localai import logs
from localai.bus.ports import Events
from localai.bus.subjects import NODES_CHANGED, ROUTING_CHANGED
from localai.errors import NodeNameTaken, NodeRemoved, NotFound, Replaced
from localai.ids import NodeId, is_uuid
from localai.nodes.admission_rules import Terms
from localai.nodes.credentials import draw, hash_of
from localai.nodes.holding_rules import Holdings
from localai.nodes.rules import NOTHING_SAID, Figures, Registration, worth_writing
from localai.nodes.store import PgNodeStore, Refused
from localai.nodes.views import NodeView

log = logs.get(__name__)
Moved = TypeVar("Moved")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The answer to a registration. ``node_token`` is shown once: the database keeps its hash."""

    id: str
    name: str
    node_type: str
    status: str
    created_at: datetime
    incarnation: int
    node_token: str


class NodeService(Generic[Moved]):
    """Nodes of the cluster. Every method raises StorageUnavailable."""

    def __init__(
        self,
        store: PgNodeStore[Moved],
        events: Events,
        *,
        tell_moved: Callable[[Moved], object],
        checkpoint_s: float,
        stale_after_s: float,
        doubt_s: float,
        auto_approve: bool = False,
        approve_names: Collection[str] = (),
        vouched_hash: str = "",
    ) -> None:
        """``tell_moved`` is called after the commit for each job that a registration ended or confirmed.

        ``approve_names`` are approved when they register first. Where ``vouched_hash`` is given, it is the hash of the
        one secret that is approved under these names, whatever their rows hold.
        """
        self._store, self._events, self._tell_moved = store, events, tell_moved
        self._checkpoint_s, self._stale_after_s, self._doubt_s = checkpoint_s, stale_after_s, doubt_s
        self._auto_approve, self._approve_names = auto_approve, frozenset(approve_names)
        self._vouched_hash = vouched_hash
        self._seen: set[NodeId] = set()

    def register(self, registration: Registration, join_token_hash: str | None = None) -> Registered:
        """Begin a new life of an agent. The agent vouches that nothing of an older life runs any more.

        Raises NotTheNextLife where it names another life than the newest one, NodeNameTaken where another worker
        reports under its name, BadInput for a new name that no node may have and for too many labels,
        TooManyPendingNodes, JoinTokenRefused where it shows a join token that is not for it.
        """
        token = draw()
        named = registration.name in self._approve_names
        vouched = named and self._is_vouched(registration)
        terms = Terms(
            stale_after_s=self._stale_after_s,
            approve=self._auto_approve or vouched,
            approve_own=named and not self._vouched_hash,
            vouched=vouched,
        )
        row = self._store.register(registration, hash_of(token), terms, join_token_hash)
        if isinstance(row, Refused):
            log.warning("registration refused", extra=logs.fields(node_id=row.id, reason=row.reason))
            raise NodeNameTaken(row.reason)
        for moved in row.moved:
            self._tell_moved(moved)
        self._tell(row.id)
        log.info(
            "node registered",
            extra=logs.fields(node=row.name, node_id=row.id, incarnation=row.incarnation, status=row.status),
        )
        return Registered(
            id=row.id,
            name=row.name,
            node_type=row.node_type,
            status=row.status,
            created_at=row.created_at,
            incarnation=row.incarnation,
            node_token=token,
        )

    def heartbeat(
        self, node_id: str, incarnation: int | None, figures: Figures, holdings: Holdings = NOTHING_SAID
    ) -> str:
        """The node's status. Raises NotFound, NodeRemoved, Replaced (another life of its agent speaks for it)."""
        row = self._store.beat_row(NodeId(node_id)) if is_uuid(node_id) else None
        if row is None:
            raise self._absent(node_id)
        if incarnation is not None and incarnation != row.incarnation:
            self.heard_of_older(row.id, incarnation)
            raise Replaced("another life of this node's agent is registered", node_id=node_id)
        first = row.id not in self._seen
        if worth_writing(row, figures, self._checkpoint_s, first=first, holdings=holdings):
            if not self._store.write_beat(row.id, row.incarnation, figures, holdings):
                raise Replaced("another life of this node's agent is registered", node_id=node_id)
            self._seen.add(row.id)
        return row.status.value

    def heard_of_older(self, node_id: NodeId, incarnation: int) -> None:
        """An incarnation that was replaced is alive: proof of two workers where the newer one has another address."""
        self._store.contest(node_id, incarnation)

    def approve(self, node_id: str) -> NodeView:
        """Let a node in; doing it again changes nothing. Raises NotFound."""
        if not is_uuid(node_id) or not self._store.approve(NodeId(node_id)):
            raise NotFound(f"there is no node {node_id}")
        self._tell(NodeId(node_id))
        found = self.get(node_id)
        if found is None:
            raise NotFound(f"there is no node {node_id}")
        return found

    def deregister(self, node_id: str, incarnation: int | None = None) -> None:
        """The agent ends in good order: no requests and no orders from now on. Raises NotFound, Replaced."""
        row = self._store.beat_row(NodeId(node_id)) if is_uuid(node_id) else None
        if row is None:
            raise NotFound(f"there is no node {node_id}")
        if not self._store.deregister(row.id, incarnation):
            raise Replaced("another life of this node's agent is registered", node_id=node_id)
        self._tell(row.id)

    def list(self) -> Sequence[NodeView]:
        """Every node, by name."""
        return self._store.list()

    def get(self, node_id: str) -> NodeView | None:
        found = self._store.list(NodeId(node_id)) if is_uuid(node_id) else []
        return found[0] if found else None

    def require(self, node_id: str) -> NodeView:
        """The node. Raises NotFound."""
        found = self.get(node_id)
        if found is None:
            raise NotFound(f"there is no node {node_id}")
        return found

    def was_removed(self, node_id: str) -> bool:
        """Whether this id was a node until an administrator removed it."""
        return is_uuid(node_id) and self._store.was_removed(NodeId(node_id))

    def check_credential(self, node_id: str, token: str) -> bool:
        """Whether this is the node's own credential, in constant time."""
        stored = self._store.credential_hash(NodeId(node_id)) if is_uuid(node_id) else None
        return hmac.compare_digest(hash_of(token), stored or "")

    def check_secret(self, node_id: str, secret: str) -> bool:
        """Whether this is the secret in the data folder of the node's worker, in constant time."""
        stored = self._store.secret_hash(NodeId(node_id)) if is_uuid(node_id) else None
        return hmac.compare_digest(hash_of(secret), stored or "")

    def log_key(self, node_id: str) -> str:
        """What opens the logs of a worker that has no registration token; empty for a node whose worker has it."""
        return (self._store.log_key(NodeId(node_id)) or "") if is_uuid(node_id) else ""

    def heard_of_replaced(self, node_id: str, token: str) -> bool:
        """Whether the token was the node's credential before a newer registration. Notes that its agent lives."""
        return is_uuid(node_id) and self._store.heard_of_replaced(NodeId(node_id), hash_of(token))

    def give_up_silent(self) -> None:
        """Give up nodes that are silent for too long."""
        self._changed(self._store.mark_silent(self._stale_after_s))

    def doubt(self, node_id: NodeId) -> None:
        """A web process reached neither a model process of the node nor its agent.

        That alone changes nothing, because others may reach them: only a node that sends no heartbeat either is taken
        out of use. A node that is not healthy is not doubted.
        """
        if self._store.doubt(node_id):
            log.warning("a node is not reached, and its next heartbeat is awaited", extra=logs.fields(node_id=node_id))

    def give_up_doubted(self) -> None:
        """Take nodes out of use that sent no heartbeat since they were doubted."""
        self._changed(self._store.mark_doubted(self._doubt_s))

    def take_back(self) -> None:
        """Take back nodes that were given up and have sent a heartbeat since."""
        self._changed(self._store.mark_returned(self._stale_after_s))

    def _changed(self, node_ids: Iterable[NodeId]) -> None:
        for node_id in node_ids:
            log.info("node changed its status by its heartbeats", extra=logs.fields(node_id=node_id))
            self._tell(node_id)

    def _is_vouched(self, registration: Registration) -> bool:
        return bool(self._vouched_hash) and hmac.compare_digest(self._vouched_hash, registration.secret_hash or "")

    def _absent(self, node_id: str) -> NotFound:
        return NodeRemoved() if self.was_removed(node_id) else NotFound(f"node {node_id} is not registered")

    def _tell(self, node_id: NodeId) -> None:
        self._events.publish(NODES_CHANGED, {"node_id": node_id})
        self._events.publish(ROUTING_CHANGED, {})
