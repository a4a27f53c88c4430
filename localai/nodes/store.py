"""How nodes reach their rows in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Generic, TypeVar

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.errors import BadInput, NotTheNextLife, TooManyPendingNodes
from localai.ids import NodeId, new_id
from localai.nodes import invitations
from localai.nodes.admission_rules import Admission, KnownNode, Terms, decide, moves
from localai.nodes.holding_rules import Holdings, promised_memory, promises_of
from localai.nodes.name_rules import check_new
from localai.nodes.ports import NewLife
from localai.nodes.rules import (
    LABELS_MOST,
    NOTHING_SAID,
    PENDING_MOST,
    BeatRow,
    Figures,
    NodeType,
    Registration,
    Status,
    automatic_labels,
    is_next_life,
    status_at_registration,
)
from localai.nodes.views import NodeView

SQL = load_queries("localai.nodes")
Moved = TypeVar("Moved")


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredRow(Generic[Moved]):
    """The row after a registration, and what it ended."""

    id: NodeId
    name: str
    node_type: str
    status: str
    created_at: datetime
    incarnation: int
    moved: Sequence[Moved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A registration that the row refuses, with the reason for people."""

    id: NodeId
    reason: str


class PgNodeStore(Generic[Moved]):
    """Rows of nodes. Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, new_life: NewLife[UnitOfWork, Moved]) -> None:
        self._unit_of_work, self._new_life = unit_of_work, new_life

    def register(
        self, registration: Registration, credential_hash: str, terms: Terms, join_token_hash: str | None = None
    ) -> RegisteredRow[Moved] | Refused:
        """Begin a new incarnation, end what older ones ran, and raise the routing version, or none of it.

        A refusal is written to the row, for administrators. The first use of a join token is an
        approval. Raises NotTheNextLife, BadInput, TooManyPendingNodes, JoinTokenRefused.
        """
        with self._unit_of_work() as uow:
            uow.execute(SQL["lock_name"], {"name": registration.name})
            row = uow.execute(SQL["known_node"], {"name": registration.name}).first()
            newest = row.incarnation if row is not None else 0
            if not is_next_life(registration.after, newest):
                raise NotTheNextLife(newest)
            if row is None:
                check_new(registration.name)
            known = None if row is None else _known(row)
            decision = decide(known, registration, terms)
            if row is not None and decision.admission is Admission.REFUSED:
                uow.execute(SQL["refuse_registration"], _refusal(row.id, registration, decision.reason))
                return Refused(id=NodeId(row.id), reason=decision.reason)
            invited = join_token_hash is not None and invitations.first_use(uow, join_token_hash, registration)
            own = decision.admission in (Admission.ADMITTED, Admission.MOVED)
            status, approved = status_at_registration(
                known=row is not None and decision.admission is Admission.ADMITTED,
                approved=row is not None and row.approved,
                approve=terms.approve or invited or (terms.approve_own and own),
                draining=row is not None and row.draining,
            )
            if row is None and not approved:
                _check_room(uow)
            labels = _labels(registration, {} if row is None else row.labels)
            parameters = {
                **_parameters(registration, credential_hash, status, approved),
                "labels": json.dumps(labels),
                "moved": moves(known, registration),
                "pending_reason": None if approved else (decision.reason or (row and row.pending_reason)),
            }
            registered = uow.execute(SQL["register_node"], parameters).mappings().one()
            if invited and join_token_hash is not None:
                invitations.bind(uow, join_token_hash, NodeId(registered["id"]), registration)
            moved = self._new_life(uow, NodeId(registered["id"]), registered["incarnation"])
            uow.execute(SQL["raise_routing_version"])
            return RegisteredRow(**registered, moved=moved)

    def heard_of_replaced(self, node_id: NodeId, credential_hash: str) -> bool:
        """Whether the credential was this node's before a newer registration; its agent is alive, which is noted."""
        parameters = {"id": node_id, "credential_hash": credential_hash}
        with self._unit_of_work() as uow:
            return uow.execute(SQL["heard_of_replaced"], parameters).first() is not None

    def contest(self, node_id: NodeId, incarnation: int) -> None:
        """An older incarnation is alive. Noted where a newer one has registered from another address."""
        with self._unit_of_work() as uow:
            uow.execute(SQL["contest_node"], {"id": node_id, "incarnation": incarnation})

    def beat_row(self, node_id: NodeId) -> BeatRow | None:
        with self._unit_of_work() as uow:
            row = uow.execute(SQL["beat_row"], {"id": node_id}).mappings().first()
        if row is None:
            return None
        figures = Figures(**{field.name: row[field.name] for field in fields(Figures)})
        return BeatRow(
            id=NodeId(row["id"]),
            status=Status(row["status"]),
            incarnation=row["incarnation"],
            last_heartbeat=row["last_heartbeat"],
            figures=figures,
            now=row["now"],
            doubted=row["doubted"],
        )

    def write_beat(
        self, node_id: NodeId, incarnation: int, figures: Figures, holdings: Holdings = NOTHING_SAID
    ) -> bool:
        """False where the incarnation is not the node's any more."""
        parameters = {"id": node_id, "incarnation": incarnation, **figures.named(), **_holdings(holdings)}
        with self._unit_of_work() as uow:
            return uow.execute(SQL["write_beat"], parameters).first() is not None

    def approve(self, node_id: NodeId) -> bool:
        return self._routed("approve_node", {"id": node_id})

    def deregister(self, node_id: NodeId, incarnation: int | None) -> bool:
        return self._routed("deregister_node", {"id": node_id, "incarnation": incarnation})

    def mark_silent(self, threshold_s: float) -> list[NodeId]:
        """Give up nodes without a heartbeat for so long; those whose status changed."""
        return self._mark("mark_silent", {"threshold": threshold_s})

    def doubt(self, node_id: NodeId) -> bool:
        """Have the next heartbeat of a healthy node written at once; False if one is awaited already."""
        with self._unit_of_work() as uow:
            return uow.execute(SQL["doubt_node"], {"id": node_id}).first() is not None

    def mark_doubted(self, threshold_s: float) -> list[NodeId]:
        """Take out nodes that were doubted for so long without a heartbeat; those whose status changed."""
        return self._mark("mark_doubted", {"threshold": threshold_s})

    def mark_returned(self, threshold_s: float) -> list[NodeId]:
        """Take back nodes that were given up and have sent a heartbeat since; those whose status changed."""
        return self._mark("mark_returned", {"threshold": threshold_s})

    def _mark(self, statement: str, parameters: Mapping[str, Any]) -> list[NodeId]:
        with self._unit_of_work() as uow:
            changed = [NodeId(row.id) for row in uow.execute(SQL[statement], parameters)]
            if changed:
                uow.execute(SQL["raise_routing_version"])
            return changed

    def credential_hash(self, node_id: NodeId) -> str | None:
        with self._unit_of_work() as uow:
            found: str | None = uow.execute(SQL["credential"], {"id": node_id}).scalar_one_or_none()
            return found

    def log_key(self, node_id: NodeId) -> str | None:
        """The hash of the credential of a node that joined with a join token; None for another one."""
        with self._unit_of_work() as uow:
            found: str | None = uow.execute(SQL["log_key"], {"id": node_id}).scalar_one_or_none()
            return found

    def secret_hash(self, node_id: NodeId) -> str | None:
        with self._unit_of_work() as uow:
            found: str | None = uow.execute(SQL["node_secret"], {"id": node_id}).scalar_one_or_none()
            return found

    def was_removed(self, node_id: NodeId) -> bool:
        """Whether this id was a node until an administrator removed it."""
        with self._unit_of_work() as uow:
            return bool(uow.execute(SQL["was_removed"], {"id": node_id}).scalar_one())

    def list(self, node_id: NodeId | None = None) -> Sequence[NodeView]:
        """Every node, or the one of this id, by name."""
        with self._unit_of_work() as uow:
            return [_view(row) for row in uow.execute(SQL["list_nodes"], {"id": node_id}).mappings()]

    @repeated
    def _routed(self, statement: str, parameters: Mapping[str, Any]) -> bool:
        with self._unit_of_work() as uow:
            changed = uow.execute(SQL[statement], parameters).first() is not None
            if changed:
                uow.execute(SQL["raise_routing_version"])
            return changed


def _known(row: Any) -> KnownNode:
    return KnownNode(
        status=Status(row.status),
        status_at=row.status_at,
        last_heartbeat=row.last_heartbeat,
        address=row.address,
        http_address=row.http_address,
        secret_hash=row.secret_hash,
        contested_at=row.contested_at,
        now=row.now,
    )


def _refusal(node_id: str, registration: Registration, reason: str) -> dict[str, Any]:
    return {
        "id": node_id,
        "address": registration.address or "",
        "http_address": registration.http_address or "",
        "reason": reason,
    }


def _parameters(registration: Registration, credential_hash: str, status: Status, approved: bool) -> dict[str, Any]:
    return {
        "id": new_id(),
        "name": registration.name,
        "node_type": NodeType(registration.node_type),
        "status": status,
        "approved": approved,
        "address": registration.address,
        "http_address": registration.http_address,
        "credential_hash": credential_hash,
        "version": registration.version,
        "capability": registration.capability,
        "reports_operations": registration.reports_operations,
        "secret_hash": registration.secret_hash,
        "max_replicas": _slots(registration),
        **registration.figures.named(),
        **_holdings(registration.holdings),
    }


def _check_room(uow: UnitOfWork) -> None:
    """Refuse one more node that waits for approval if there are too many. Raises TooManyPendingNodes."""
    uow.execute(SQL["lock_pending"])
    if uow.execute(SQL["pending_nodes"]).scalar_one() >= PENDING_MOST:
        raise TooManyPendingNodes(PENDING_MOST)


def _labels(registration: Registration, kept: Mapping[str, str]) -> dict[str, str]:
    """The labels of the row after the registration. Raises BadInput where it would have too many."""
    own = automatic_labels(registration.name, registration.figures, _slots(registration))
    labels = {**registration.labels, **own}
    count = len({**kept, **labels}.keys() - own.keys())
    if count > LABELS_MOST and not registration.labels.keys() <= kept.keys():
        raise BadInput("labels", f"{count} labels", f"{LABELS_MOST} labels, those of earlier registrations included")
    return labels


def _slots(registration: Registration) -> int:
    return max(1, registration.max_replicas_per_model)


def _holdings(holdings: Holdings) -> dict[str, str | None]:
    files, memory = holdings.files, holdings.memory
    return {
        "staged_files": None if files is None else json.dumps([file.to_json() for file in files]),
        "process_memory": None if memory is None else json.dumps(dict(memory)),
    }


_OPTIONAL = ("silent_since", "last_heartbeat", "drain", "refused_registration", "pending_reason")
_TEXTS = ("address", "http_address", "version", "gpu_vendor", "gpu_compute_capability", "capability")


def _view(row: Mapping[Any, Any]) -> NodeView:
    promises = promises_of(row["promises"])
    reserved = promised_memory(promises, row["process_memory"], gpu=bool(row["total_vram"]))
    known, values = {**row, "reserved_vram": reserved}, {}
    for field in fields(NodeView):
        value = known[field.name]
        if value is None and field.name not in _OPTIONAL:
            value = "" if field.name in _TEXTS else 0
        values[field.name] = value
    return NodeView(**values)
