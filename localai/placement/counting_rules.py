"""What the replicas of a node and the bytes it holds mean for a model that is to be placed there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localai.nodes.holding_rules import (
    FileKey,
    Holdings,
    Promise,
    arriving,
    on_disk,
    promised_memory,
    spared,
)


def counted(
    promises: Sequence[Promise],
    holdings: Holdings,
    *,
    model: str,
    wanted: Mapping[FileKey, int] | None,
    gpu: bool,
) -> dict[str, Any]:
    """The counts of a `NodeOffer`. ``wanted`` are the files of the model that is to be placed."""
    held = on_disk(holdings.files)
    coming = arriving(promises, held)
    return {
        "replicas": len(promises),
        # One that is being stopped takes no slot: a model may be loaded anew beside it.
        "replicas_of_model": sum(promise.model == model and promise.state != "unloading" for promise in promises),
        "unloading": sum(promise.state == "unloading" for promise in promises),
        "reserved_memory": promised_memory(promises, holdings.memory, gpu=gpu),
        "reserved_disk": sum(coming.values()),
        "held_disk": spared(wanted, held, coming),
    }
