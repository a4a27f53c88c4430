"""Which node gets a model, and for every other node the reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localai.ids import NodeId
from localai.placement.filters import FILTERS, Demand, Limits, NodeOffer


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The node that was chosen."""

    node_id: NodeId
    node_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoom:
    """No node may hold the model. One reason for each node, by name."""

    reasons: tuple[tuple[str, str], ...]
    #: Whether any node that may serve exists at all.
    nodes_serve: bool
    #: Something is being stopped on a node that could serve: room may appear without anybody's help.
    may_change: bool

    def text(self, model: str) -> str:
        """The error of the job."""
        if not self.reasons:
            return f"no node is registered that could load {model!r}; start a worker with `localai worker`"
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.reasons)
        return f"no node can load {model!r}: {reasons}"


def place(demand: Demand, nodes: Sequence[NodeOffer], limits: Limits) -> Placement | NoRoom:
    """Choose among the nodes that pass every filter: the idlest, then the one with most free memory, then by name.

    A node that did not take its last order goes last: a dead one is idle and has the most free memory of all, and
    would get every load until it counts as stale. The same holds for one whose heartbeat is old: it is not refused,
    because after an outage of the database the heartbeats of all nodes are old. Unknown is not full: a figure that a
    node does not report refuses nothing, but a node that reports room goes first. A backend may be a folder
    that only some nodes have: a node that did not know it goes after the others.
    """
    refused = {node.id: reason for node in nodes if (reason := refusal(demand, node, limits)) is not None}
    fitting = [node for node in nodes if node.id not in refused]
    if fitting:
        chosen = min(fitting, key=lambda node: _preference(node, limits))
        return Placement(node_id=chosen.id, node_name=chosen.name)
    serving = [node for node in nodes if node.status == "healthy"]
    return NoRoom(
        reasons=tuple(sorted((node.name, refused[node.id]) for node in nodes)),
        nodes_serve=bool(serving),
        may_change=any(node.unloading for node in serving),
    )


def refusal(demand: Demand, node: NodeOffer, limits: Limits) -> str | None:
    """The first reason against a node, or None."""
    for reason in (check(demand, node, limits) for check in FILTERS):
        if reason is not None:
            return reason
    return None


def _preference(node: NodeOffer, limits: Limits) -> tuple[bool, bool, int, int, str]:
    last = node.ignores_orders(limits) or node.quiet(limits)
    return last, node.lacks_backend, node.replicas, -(node.free_memory() or 0), node.name
