"""What a registration asks of the subsystem that knows which work an older life of an agent had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from localai.ids import NodeId

Transaction_contra = TypeVar("Transaction_contra", contravariant=True)
Ended_co = TypeVar("Ended_co", covariant=True)


class NewLife(Protocol[Transaction_contra, Ended_co]):
    """Called in the transaction of a registration, after the incarnation was drawn and while the row is held."""

    def __call__(self, transaction: Transaction_contra, node_id: NodeId, incarnation: int, /) -> Sequence[Ended_co]:
        """End what older incarnations ran; what was moved, to be told after the commit."""
