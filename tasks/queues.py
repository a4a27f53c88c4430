"""What queues are called, and who listens on which."""

from __future__ import annotations

import re

from localai.ids import NodeId

#: Every control process listens here.
CONTROL_QUEUE = "control"

#: What the broker takes as a name, without its own suffixes for delayed and dead messages.
_NODE_ID = re.compile(r"[A-Za-z0-9_-]+")


def node_queue(node_id: NodeId | str) -> str:
    """The queue that only this node's agent listens on. Raises ValueError for what cannot be part of a name."""
    if not _NODE_ID.fullmatch(node_id):
        raise ValueError(f"{node_id!r} cannot name a queue")
    return f"node.{node_id}"
