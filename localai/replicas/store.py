"""Which replicas exist, and which of them may be routed to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWorkFactory
from localai.ids import JobId, NodeId, is_uuid
from localai.replicas.cuts import CutWindows

SQL = load_queries("localai.replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingReplica:
    """One replica that may serve."""

    replica_id: str
    model: str
    slot: int
    node_id: str
    node_name: str
    address: str
    process_instance: str
    #: The very Model string LoadModel got.
    identity: str
    revision: str
    #: Secret that each call to the process sends; None if the process has none.
    process_secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSnapshot:
    """Everything that may serve at one moment, with the version of that moment."""

    version: int
    replicas: tuple[RoutingReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """One replica as people see it."""

    id: str
    node_id: str
    node_name: str
    model: str
    slot: int
    address: str | None
    state: str
    backend: str
    revision: str
    job_id: str
    op_generation: int
    process_instance: str | None
    reserved_bytes: int
    #: Requests that live web processes had with it at their last renewal.
    in_flight: int
    created_at: datetime
    updated_at: datetime

    def to_json(self) -> dict[str, Any]:
        """The replica object of the API."""
        return {
            "id": self.id,
            "node_id": self.node_id,
            "model_name": self.model,
            "replica_index": self.slot,
            "address": self.address or "",
            "state": self.state,
            "in_flight": self.in_flight,
            "last_used": None,
            "backend_type": self.backend,
            "config_revision": self.revision,
            "job_id": self.job_id,
            "generation": self.op_generation,
            "process_instance": self.process_instance,
            "created_at": _text(self.created_at),
            "updated_at": _text(self.updated_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A replica that no request keeps any more, and whose process is to be stopped by its instance."""

    node_id: NodeId
    model: str
    slot: int
    address: str | None
    process_instance: str
    job_id: str
    op_generation: int
    #: The unload or drain that asked for it, where there is one.
    parent_id: JobId | None


class PgReplicaStore:
    """Rows of replicas. Every method raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, cuts: CutWindows | None = None) -> None:
        self._unit_of_work, self._cuts = unit_of_work, cuts or CutWindows()

    def routing_snapshot(self) -> RoutingSnapshot:
        """What may serve, in one snapshot of the database with its version."""
        with self._unit_of_work() as uow:
            rows = uow.execute(SQL["routing_snapshot"]).mappings().all()
        return RoutingSnapshot(
            version=rows[0]["version"],
            replicas=tuple(_routed(row) for row in rows if row["replica_id"] is not None),
        )

    def routing_version(self) -> int:
        """The version alone."""
        with self._unit_of_work() as uow:
            return int(uow.execute(SQL["routing_version"]).scalar_one())

    def list(self) -> Sequence[ReplicaView]:
        """Every replica, whatever its state."""
        return self._list(None)

    def list_for_node(self, node_id: str) -> Sequence[ReplicaView]:
        """The replicas of one node."""
        return self._list(NodeId(node_id)) if is_uuid(node_id) else []

    def to_clean(self, limit: int) -> Sequence[Leftover]:
        """Replicas that may serve no more, that nothing stops yet, and that no request may keep from it any more.

        That is so where every live frontend is done with a replica, or where its requests had to be cut.
        """
        with self._unit_of_work() as uow:
            rows = uow.execute(SQL["to_clean"], {"limit": limit, **self._cuts.named()}).mappings().all()
        return [Leftover(**{name: row[name] for name in Leftover.__slots__}) for row in rows]

    def _list(self, node_id: NodeId | None) -> Sequence[ReplicaView]:
        with self._unit_of_work() as uow:
            return [ReplicaView(**row) for row in uow.execute(SQL["list_replicas"], {"node": node_id}).mappings()]


def _routed(row: Mapping[Any, Any]) -> RoutingReplica:
    return RoutingReplica(**{name: row[name] for name in RoutingReplica.__slots__})


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
