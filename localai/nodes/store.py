"""How nodes reach their rows in PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Generic, TypeVar

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, repeated
from localai.errors import NotTheNextLife
from localai.ids import NodeId, new_id
from localai.nodes.ports import NewLife
from localai.nodes.rules import (
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


class PgNodeStore(Generic[Moved]):
    """Rows of nodes. Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, new_life: NewLife[UnitOfWork, Moved]) -> None:
        self._unit_of_work, self._new_life = unit_of_work, new_life

    def register(self, registration: Registration, credential_hash: str, *, approve: bool) -> RegisteredRow[Moved]:
        """Begin a new incarnation, end what older ones ran, and raise the routing version, or none of it.

        Raises NotTheNextLife.
        """
        with self._unit_of_work() as uow:
            known = uow.execute(SQL["known_node"], {"name": registration.name}).first()
            newest = known.incarnation if known is not None else 0
            if not is_next_life(registration.after, newest):
                raise NotTheNextLife(newest)
            status, approved = status_at_registration(
                known=known is not None,
                approved=known is not None and known.approved,
                approve=approve,
                draining=known is not None and known.draining,
            )
            parameters = _parameters(registration, credential_hash, status, approved)
            row = uow.execute(SQL["register_node"], parameters).mappings().one()
            if not is_next_life(registration.after, row["incarnation"] - 1):
                raise NotTheNextLife(row["incarnation"] - 1)  # two first registrations at once
            moved = self._new_life(uow, NodeId(row["id"]), row["incarnation"])
            uow.execute(SQL["raise_routing_version"])
            return RegisteredRow(**row, moved=moved)

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
        )

    def write_beat(self, node_id: NodeId, incarnation: int, figures: Figures) -> bool:
        """False where the incarnation is not the node's any more."""
        parameters = {"id": node_id, "incarnation": incarnation, **figures.named()}
        with self._unit_of_work() as uow:
            return uow.execute(SQL["write_beat"], parameters).first() is not None

    def approve(self, node_id: NodeId) -> bool:
        return self._routed("approve_node", {"id": node_id})

    def deregister(self, node_id: NodeId, incarnation: int | None) -> bool:
        return self._routed("deregister_node", {"id": node_id, "incarnation": incarnation})

    def mark(self, threshold_s: float) -> list[NodeId]:
        """Give up silent nodes and take back those that were heard of since; the nodes whose status changed."""
        with self._unit_of_work() as uow:
            changed = [
                NodeId(row.id)
                for statement in ("mark_silent", "mark_returned")
                for row in uow.execute(SQL[statement], {"threshold": threshold_s})
            ]
            if changed:
                uow.execute(SQL["raise_routing_version"])
            return changed

    def credential_hash(self, node_id: NodeId) -> str | None:
        with self._unit_of_work() as uow:
            found: str | None = uow.execute(SQL["credential"], {"id": node_id}).scalar_one_or_none()
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


def _parameters(registration: Registration, credential_hash: str, status: Status, approved: bool) -> dict[str, Any]:
    slots = max(1, registration.max_replicas_per_model)
    labels = {**registration.labels, **automatic_labels(registration.name, registration.figures, slots)}
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
        "labels": json.dumps(labels),
        "max_replicas": slots,
        **registration.figures.named(),
    }


_TEXTS = ("address", "http_address", "version", "gpu_vendor", "gpu_compute_capability", "capability")


def _view(row: Mapping[Any, Any]) -> NodeView:
    values = {}
    for field in fields(NodeView):
        value = row[field.name]
        if value is None and field.name not in ("last_heartbeat", "drain"):
            value = "" if field.name in _TEXTS else 0
        values[field.name] = value
    return NodeView(**values)
