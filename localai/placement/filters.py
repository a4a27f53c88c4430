"""Which single facts keep a node from getting a model. One function for each, with the text people read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localai.ids import NodeId
from localai.jobs.quarantine_rules import Streak, why_not_there

MIB, GIB = 1024**2, 1024**3
#: Room that must stay free beside the bytes to come, as one part of them, and of a small disk's free room.
DISK_MARGIN_PART = 20
#: What a node must have free for a model whose size nobody knows.
DISK_FLOOR = 2 * GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a model needs. ``size_bytes`` is the size of its files, None where nobody knows it."""

    model: str
    size_bytes: int | None
    #: Whether files are staged to the node's disk at all.
    stages: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOffer:
    """A node as placement sees it, in bytes. None is a figure the node could not read: unknown is not full."""

    id: NodeId
    name: str
    status: str
    heartbeat_age_s: float | None
    #: Seconds since it did not take or report an order, if it has taken none since. A heartbeat changes nothing: an
    #: agent that beats may not reach its queue.
    silent_s: float | None = None
    total_vram: int | None = None
    available_vram: int | None = None
    total_ram: int | None = None
    available_ram: int | None = None
    total_disk: int | None = None
    available_disk: int | None = None
    #: Memory promised to replicas that the node's own figures do not show yet.
    reserved_memory: int = 0
    #: Disk promised to bytes that are still to come.
    reserved_disk: int = 0
    #: Bytes of the model's own files that need no further room: they are there, or another load brings them.
    held_disk: int = 0
    replicas: int = 0
    #: Without those that are being stopped.
    replicas_of_model: int = 0
    unloading: int = 0
    #: Loads of this revision of the model have failed there again and again.
    quarantine: Streak | None = None
    #: Its last load of this revision failed because the node does not know the backend.
    lacks_backend: bool = False
    max_replicas_per_model: int = 1

    @property
    def has_gpu(self) -> bool:
        return bool(self.total_vram)

    def ignores_orders(self, limits: Limits) -> bool:
        """Whether other nodes go first. After a while it is tried again: nothing else shows that it takes orders."""
        return self.silent_s is not None and self.silent_s < limits.stale_after_s

    def quiet(self, limits: Limits) -> bool:
        """Whether its last written heartbeat is too old. The sweep alone says that such a node is offline."""
        return self.heartbeat_age_s is not None and self.heartbeat_age_s > limits.stale_after_s

    def free_memory(self) -> int | None:
        """Memory a new model could get: of the GPU where there is one. None where the node does not say."""
        available = self.available_vram if self.has_gpu else self.available_ram
        if available is None or (available == 0 and not (self.total_vram if self.has_gpu else self.total_ram)):
            return None
        return max(0, available - self.reserved_memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings of the filters."""

    stale_after_s: float
    #: Bytes that stay free on the disk of a node at least, beside the files of a load; 0 asks for no margin at all.
    disk_margin: int = GIB


def serves(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    if node.status == "healthy":
        return None
    return "waits for approval" if node.status == "pending" else f"is {node.status}"


def answers(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    return "has not sent a heartbeat" if node.heartbeat_age_s is None else None


def not_in_quarantine(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    return why_not_there(node.quarantine) if node.quarantine is not None else None


def has_slot(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    if node.replicas_of_model < node.max_replicas_per_model:
        return None
    return f"holds {node.replicas_of_model} of at most {node.max_replicas_per_model} replicas of this model"


def has_disk(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    if not demand.stages or not node.total_disk or node.available_disk is None:
        return None
    free, need = max(0, node.available_disk - node.reserved_disk), DISK_FLOOR
    if demand.size_bytes is not None:
        coming = max(0, demand.size_bytes - node.held_disk)
        need = coming and coming + disk_margin(coming, free, node.total_disk, limits.disk_margin)
    if free >= need:
        return None
    has = f"has {text(free)} free of {text(node.total_disk)}"
    reserved = f" ({text(node.reserved_disk)} are promised to other loads)" if node.reserved_disk else ""
    return f"needs {text(need)} free on the models filesystem, {has}{reserved}"


def disk_margin(coming: int, free: int, total: int, least: int) -> int:
    """Room that must stay free beside the bytes to come: 5 % of them, at least ``least``.

    Where that is more than 5 % of the whole disk, 5 % of what is free will do: a small node takes small models.
    """
    if not least:
        return 0
    if least * DISK_MARGIN_PART > total:
        least = min(least, free // DISK_MARGIN_PART)
    return max(coming // DISK_MARGIN_PART, least)


def has_memory(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    free = node.free_memory()
    if demand.size_bytes is None or free is None or free >= demand.size_bytes:
        return None
    reserved = f" ({text(node.reserved_memory)} are promised to other loads)" if node.reserved_memory else ""
    kind = "GPU memory" if node.has_gpu else "memory"
    return f"needs {text(demand.size_bytes)} of {kind}, has {text(free)} free{reserved}"


Filter = Callable[[Demand, NodeOffer, Limits], str | None]
#: In the order people want to hear them: a node that is away says nothing of its disk.
FILTERS: tuple[Filter, ...] = (serves, answers, not_in_quarantine, has_slot, has_disk, has_memory)


def text(size: float) -> str:
    """A number of bytes for people."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size:.0f} B"
