"""How a node looks to people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node. Sizes are bytes, 0 where the node does not say."""

    id: str
    name: str
    node_type: str
    status: str
    approved: bool
    address: str
    http_address: str
    incarnation: int
    version: str
    total_vram: int
    available_vram: int
    reserved_vram: int
    total_ram: int
    available_ram: int
    total_disk: int
    available_disk: int
    gpu_vendor: str
    gpu_compute_capability: str
    capability: str
    cpu_logical_cores: int
    cpu_usage_percent: float
    cpu_load_1: float
    #: Nodes of one class load one model in about the same time.
    node_class: str
    labels: Mapping[str, str]
    max_replicas_per_model: int
    max_replicas_set_by_admin: bool
    model_count: int
    #: The wish to have it out of use; ``status`` says what it is now.
    draining: bool
    #: The job that drains or removes it: its id, what it waits for, whether the node goes with its end.
    drain: Mapping[str, Any] | None
    #: The last registration under this name that was refused: at, address, http_address, reason.
    refused_registration: Mapping[str, Any] | None
    #: Why a node that was approved before waits for approval again.
    pending_reason: str | None
    #: Requests that live web processes had there at their last renewal.
    in_flight_count: int
    #: Since when it takes no orders, although it may beat; None for a node that does.
    silent_since: datetime | None
    last_heartbeat: datetime | None
    created_at: datetime
    updated_at: datetime

    def to_json(self) -> dict[str, Any]:
        """The node object of the API; the hashes of credential and secret are not part of it."""
        body: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "node_type": self.node_type,
            "address": self.address,
            "http_address": self.http_address,
            "status": self.status,
            "version": self.version,
            "incarnation": self.incarnation,
            "total_vram": self.total_vram,
            "available_vram": self.available_vram,
            "reserved_vram": self.reserved_vram,
            "total_ram": self.total_ram,
            "available_ram": self.available_ram,
            "total_disk": self.total_disk,
            "available_disk": self.available_disk,
            "gpu_vendor": self.gpu_vendor,
            "gpu_compute_capability": self.gpu_compute_capability,
            "cpu_logical_cores": self.cpu_logical_cores,
            "cpu_usage_percent": self.cpu_usage_percent,
            "cpu_load_1": self.cpu_load_1,
            "node_class": self.node_class,
            "max_replicas_per_model": self.max_replicas_per_model,
            "max_replicas_per_model_manually_set": self.max_replicas_set_by_admin,
            "vram_budget_manually_set": False,
            "last_heartbeat": _text(self.last_heartbeat),
            "created_at": _text(self.created_at),
            "updated_at": _text(self.updated_at),
            "model_count": self.model_count,
            "in_flight_count": self.in_flight_count,
        }
        body["draining"] = self.draining
        if self.drain is not None:
            body["drain"] = dict(self.drain)
        if self.refused_registration is not None:
            body["refused_registration"] = dict(self.refused_registration)
        if self.pending_reason:
            body["pending_reason"] = self.pending_reason
        if self.silent_since is not None:
            body["silent_since"] = _text(self.silent_since)
        if self.capability:
            body["capability"] = self.capability
        if self.labels:
            body["labels"] = dict(self.labels)
        return body


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
