"""What a node is, which status it gets, and which heartbeats are worth a write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum

from localai.ids import NodeId
from localai.nodes.holding_rules import Holdings

#: Free memory or disk that moved less than this is no news: placement would not choose otherwise.
MATERIAL_BYTES = 256 * 1024**2
#: Nodes that wait for approval at a time. Each of them is a row that the registration token alone made.
PENDING_MOST = 1000
#: Labels of a node that its registrations brought, and characters of a key and of a value.
LABELS_MOST, LABEL_KEY_MOST, LABEL_VALUE_MOST = 64, 63, 255


class Status(StrEnum):
    """What a node may be used for."""

    PENDING = "pending"  # registered, not approved: no orders, no requests
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"  # not reached, and no heartbeat since: no requests and no orders until the next one
    OFFLINE = "offline"  # said so, or silent for too long; the row stays, with its approval
    DRAINING = "draining"


class NodeType(StrEnum):
    BACKEND = "backend"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a node measures, in bytes and percent. None is a figure that could not be read: the last one stays."""

    total_vram: int | None = None
    available_vram: int | None = None
    total_ram: int | None = None
    available_ram: int | None = None
    total_disk: int | None = None
    available_disk: int | None = None
    gpu_vendor: str | None = None
    gpu_compute_capability: str | None = None
    cpu_logical_cores: int | None = None
    cpu_usage_percent: float | None = None
    cpu_load_1: float | None = None

    def named(self) -> dict[str, object]:
        """Every figure by its name, None included."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What an agent says of itself when its incarnation begins."""

    name: str
    node_type: NodeType = NodeType.BACKEND
    address: str | None = None
    http_address: str | None = None
    version: str | None = None
    capability: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    max_replicas_per_model: int = 1
    figures: Figures = field(default_factory=Figures)
    holdings: Holdings = field(default_factory=Holdings)
    #: Whether the agent claims and reports its operations. One whose registration leaves it out is a legacy node.
    reports_operations: bool = True
    #: The newest life that the agent knows of, 0 for none; None: an agent of an older version does not say.
    after: int | None = None
    #: SHA-256 of the node secret, in hexadecimal; None: an agent of an older version has none.
    secret_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatRow:
    """The part of a node's row that a heartbeat is compared with. ``now`` is the database's clock."""

    id: NodeId
    status: Status
    incarnation: int
    last_heartbeat: datetime | None
    figures: Figures
    now: datetime
    #: A web process reached neither a model process of the node nor its agent.
    doubted: bool = False


#: A beat of an agent that reports no files or processes, or none that changed.
NOTHING_SAID = Holdings()
#: Facts of the hardware: another value is an event.
_FACTS = ("gpu_vendor", "total_vram", "total_disk")
#: Figures that placement reads.
_FREE = ("available_vram", "available_ram", "available_disk")


def worth_writing(
    row: BeatRow, beat: Figures, checkpoint_s: float, *, first: bool, holdings: Holdings = NOTHING_SAID
) -> bool:
    """Whether a heartbeat is written now or held back until the next checkpoint.

    Compared with what was last *written*, so that a figure which walks away in small steps is written once it is far.
    ``first``: this process has not seen the node before. A node that is not active needs every beat to come back, and
    one that is doubted needs it to stay.
    Files are reported only when they changed, together with the free disk that they were counted in.
    """
    if holdings.files is not None:
        return True
    if first or row.doubted or row.last_heartbeat is None or row.status not in (Status.HEALTHY, Status.DRAINING):
        return True
    age_s = (row.now - row.last_heartbeat).total_seconds()
    if age_s >= checkpoint_s or age_s < 0:  # ahead of the clock: it stepped back
        return True
    return any(_differs(row.figures, beat, name) for name in _FACTS) or any(
        _moved(row.figures, beat, name) for name in _FREE
    )


def _differs(written: Figures, beat: Figures, name: str) -> bool:
    value = getattr(beat, name)
    return value is not None and value != getattr(written, name)


def _moved(written: Figures, beat: Figures, name: str) -> bool:
    before, now = getattr(written, name), getattr(beat, name)
    return now is not None and (before is None or abs(now - before) > MATERIAL_BYTES)


def status_at_registration(
    *, known: bool, approved: bool, approve: bool, draining: bool = False
) -> tuple[Status, bool]:
    """Status and approval of a node that registers: an approval and a drain, once given, outlive every restart."""
    approved = (known and approved) or approve
    if not approved:
        return Status.PENDING, False
    return (Status.DRAINING if draining else Status.HEALTHY), True


def is_next_life(after: int | None, newest: int) -> bool:
    """Whether a registration begins the life after the newest one.

    One that was carried out late, when its agent had given it up and registered elsewhere, would declare that nothing
    of the agent's work runs while it does.
    """
    return after is None or after == newest


def automatic_labels(name: str, figures: Figures, max_replicas: int) -> dict[str, str]:
    """Labels that the server sets itself, for selectors."""
    labels = {"node.name": name, "node.replica-slots": str(max_replicas)}
    if figures.gpu_vendor:
        labels["gpu.vendor"] = figures.gpu_vendor
    if figures.total_vram:
        labels["gpu.vram"] = _vram_bucket(figures.total_vram)
    return labels


def _vram_bucket(size: int) -> str:
    """The class by which a GPU is sold. Makers count 10^9 bytes, and the driver keeps a part: 15.8 are a card of 16."""
    gigabytes = round(size / 1e9)
    for least, text in ((80, "80GB+"), (48, "48GB"), (24, "24GB"), (16, "16GB"), (8, "8GB")):
        if gigabytes >= least:
            return text
    return f"{gigabytes}GB"
