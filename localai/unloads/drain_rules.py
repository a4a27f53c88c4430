"""The options of a drain, and the conditions under which a node is removed with replicas left on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localai.nodes.rules import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What becomes of the node. A wish is only ever extended: a drain becomes a removal, never the reverse."""

    #: Its row goes with the end of the drain.
    remove: bool = False
    #: It goes at once, with whatever runs there.
    force: bool = False
    #: Requests in flight there are cut.
    cut: bool = False

    def to_args(self) -> dict[str, bool]:
        """What of it is true: the arguments of a job are merged."""
        wishes = {"remove": self.remove, "force": self.force, "cut": self.cut}
        return {name: True for name, wanted in wishes.items() if wanted}

    @classmethod
    def of(cls, args: Mapping[str, Any]) -> Wish:
        return cls(remove=bool(args.get("remove")), force=bool(args.get("force")), cut=bool(args.get("cut")))


def goes_anyway(wish: Wish, status: Status | None) -> bool:
    """Whether a removal waits for nothing more: by force, or because nobody is there who could say that it has ended.

    An offline node said that it ends, or was silent for the stale threshold, which is longer than every hold.
    """
    return wish.remove and (wish.force or status is Status.OFFLINE)
