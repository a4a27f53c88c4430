"""What is one request with one replica, and how is it counted?"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from localai.errors import LocalAIError, ModelUnloaded
from localai.inference.ports import Endpoint
from localai.routing.ports import LoadedReplica


def endpoint_of(replica: LoadedReplica) -> Endpoint:
    """The process instance behind a replica row."""
    return Endpoint(
        node_id=replica.node_id,
        address=replica.address,
        process_instance=replica.process_instance,
        secret=replica.process_secret,
    )


class Entry:
    """One replica of the table and its use by this process. Changed under the table's lock only."""

    __slots__ = ("cut", "endpoint", "in_flight", "last_used", "picks", "replica")

    def __init__(self, replica: LoadedReplica) -> None:
        self.replica = replica
        self.endpoint = endpoint_of(replica)
        self.in_flight = 0
        self.last_used = 0
        #: The requests that are counted in `in_flight`.
        self.picks: set[Pick] = set()
        #: Its requests end now, because its process is stopped.
        self.cut = False


class Pick:
    """One request with one replica, counted until `release`. As a context manager it releases at the end."""

    __slots__ = ("_cancel", "_entry", "_release", "_released")

    def __init__(self, entry: Entry, release: Callable[[Pick], None]) -> None:
        self._entry, self._release, self._released = entry, release, False
        self._cancel: Callable[[LocalAIError], None] | None = None

    @property
    def entry(self) -> Entry:
        return self._entry

    @property
    def replica(self) -> LoadedReplica:
        return self._entry.replica

    @property
    def endpoint(self) -> Endpoint:
        return self._entry.endpoint

    def is_of(self, entry: Entry) -> bool:
        """Whether this pick counts on that very entry, and not on a later one of the same instance."""
        return self._entry is entry

    def cancelled_by(self, cancel: Callable[[LocalAIError], None]) -> None:
        """Name what ends the call of this request; it is called with ModelUnloaded if its process is stopped."""
        self._cancel = cancel
        if self._entry.cut:
            self.cut()

    def cut(self) -> None:
        """End the call of this request, because its process is stopped."""
        if self._cancel is not None:
            self._cancel(ModelUnloaded())

    def release(self) -> None:
        """Count the request down. A second call does nothing."""
        if not self._released:
            self._released = True
            self._release(self)

    def __enter__(self) -> Pick:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
