"""Which kinds of job exist, and what becomes of one whose owner is lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MODEL_LOAD = "model.load"
MODEL_INSTALL = "model.install"
MODEL_UNLOAD = "model.unload"
REPLICA_CLEANUP = "replica.cleanup"
NODE_DRAIN = "node.drain"


class OnLapse(StrEnum):
    """What happens when the lease of an owner lapses."""

    FAIL = "fail"  # work may still run on a node: the attempt ends, and its hold protects the next
    ADOPT = "adopt"  # the same, unless a fresh report lists that work, or none was sent: then another owner goes on
    REQUEUE = "requeue"  # the work lived in the owner only and may be done again: another owner takes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of job. The engine knows no other difference between kinds."""

    name: str
    #: Kind of the `subjects` row whose lock and generation counter it uses.
    subject_kind: str
    on_lapse: OnLapse
    #: Owners it may lose before it fails; None for work that must be done however often it takes.
    max_attempts: int | None = 1
    #: The kind it works for: it is cancelled with the last live job of that kind about its subject.
    serves: str | None = None
    #: Why a person may not cancel it, and what to do instead; empty where a cancel ends it.
    not_cancelled: str = ""

    def spent(self, attempts: int, *, given_back: bool) -> bool:
        """Whether the loss of its owner was the last one. An owner that gave the work back was not lost."""
        return not given_back and self.max_attempts is not None and attempts >= self.max_attempts


Kinds = Mapping[str, Kind]


def registry(*kinds: Kind) -> Kinds:
    """Kinds by name."""
    return {kind.name: kind for kind in kinds}


KINDS: Kinds = registry(
    Kind(name=MODEL_LOAD, subject_kind="model", on_lapse=OnLapse.ADOPT),
    Kind(name=MODEL_INSTALL, subject_kind="model", on_lapse=OnLapse.REQUEUE, max_attempts=3, serves=MODEL_LOAD),
    Kind(
        name=MODEL_UNLOAD,
        subject_kind="model",
        on_lapse=OnLapse.REQUEUE,
        max_attempts=None,
    ),
    Kind(
        name=REPLICA_CLEANUP,
        subject_kind="process",
        on_lapse=OnLapse.REQUEUE,
        max_attempts=None,
        not_cancelled="its process belongs to no replica that serves, and is stopped until that is proven",
    ),
    Kind(
        name=NODE_DRAIN,
        subject_kind="node",
        on_lapse=OnLapse.REQUEUE,
        max_attempts=None,
        not_cancelled="`localai nodes resume` ends it",
    ),
)
