"""What is one request with one replica, and how is it counted?"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from localai.inference.ports import Endpoint
from localai.routing.ports import LoadedReplica


def endpoint_of(replica: LoadedReplica) -> Endpoint:
    """The process instance behind a replica row."""
    return Endpoint(node_id=replica.node_id, address=replica.address, process_instance=replica.process_instance)


class Entry:
    """One replica of the table and its use by this process. Changed under the table's lock only."""

    __slots__ = ("endpoint", "in_flight", "last_used", "replica")

    def __init__(self, replica: LoadedReplica) -> None:
        self.replica = replica
        self.endpoint = endpoint_of(replica)
        self.in_flight = 0
        self.last_used = 0


class Pick:
    """One request with one replica, counted until `release`. As a context manager it releases at the end."""

    __slots__ = ("_entry", "_release", "_released")

    def __init__(self, entry: Entry, release: Callable[[Entry], None]) -> None:
        self._entry, self._release, self._released = entry, release, False

    @property
    def replica(self) -> LoadedReplica:
        return self._entry.replica

    @property
    def endpoint(self) -> Endpoint:
        return self._entry.endpoint

    def is_of(self, entry: Entry) -> bool:
        """Whether this pick counts on that very entry, and not on a later one of the same instance."""
        return self._entry is entry

    def release(self) -> None:
        """Count the request down. A second call does nothing."""
        if not self._released:
            self._released = True
            self._release(self._entry)

    def __enter__(self) -> Pick:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
