"""Which replicas does this process route to, and how many requests does it have with each?

The table changes by whole snapshots of the rows and by what calls have shown to be broken, never by an event alone.
Nothing in here waits or does I/O under its lock, so that a pick and its count are one step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from localai.clock import boottime
from localai.errors import StorageUnavailable
from localai.inference.ports import Endpoint
from localai.routing.picks import Entry, Pick, endpoint_of
from localai.routing.ports import LoadedReplica, Snapshot
from localai.routing.rules import Lease, Standing, Use, choose


@dataclass(frozen=True, slots=True)
class _Loss:
    """Why an instance is not routed to although its row may still be there."""

    lost_at: float
    for_good: bool


class RoutingTable:
    """The replicas this process routes to. Safe for threads and greenlets.

    `forget` closes the connection to an instance; it is called once nothing of this process uses it any more.
    """

    def __init__(
        self,
        *,
        lease_ttl_s: float,
        serve_stale: bool,
        forget: Callable[[Endpoint], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._lease_ttl_s, self._serve_stale, self._forget, self._clock = lease_ttl_s, serve_stale, forget, clock
        self._lock = threading.Lock()
        self._models: dict[str, list[Entry]] = {}
        #: Entries that are routed to no more and whose requests still run.
        self._leaving: dict[Endpoint, Entry] = {}
        self._replicas: dict[Endpoint, LoadedReplica] = {}
        self._lost: dict[Endpoint, _Loss] = {}
        self._lease: Lease | None = None
        self._confirmed_at = float("-inf")
        self._uses = 0
        self._listeners: list[Callable[[], None]] = []
        self._left: Callable[[], None] = lambda: None
        self.version = 0

    # What requests ask

    def pick(self, model: str, exclude: Collection[Endpoint] = ()) -> Pick | None:
        """A replica of the model, counted in the same step; None when there is none.

        Raises StorageUnavailable when this process may not route: its rows are not read yet, or its lease is over.
        """
        with self._lock:
            self._require_standing()
            entries = [entry for entry in self._models.get(model, ()) if entry.endpoint not in exclude]
            if not entries:
                return None
            entry = entries[choose([Use(entry.in_flight, entry.last_used) for entry in entries])]
            self._uses += 1
            entry.in_flight, entry.last_used = entry.in_flight + 1, self._uses
            pick = Pick(entry, self._count_down)
            entry.picks.add(pick)
            return pick

    def holds(self, model: str, exclude: Collection[Endpoint] = ()) -> bool:
        """Whether a pick would find a replica, as far as the rows go."""
        with self._lock:
            return any(entry.endpoint not in exclude for entry in self._models.get(model, ()))

    def replicas(self, model: str) -> list[LoadedReplica]:
        """The replicas of a model that are routed to."""
        with self._lock:
            return [entry.replica for entry in self._models.get(model, ())]

    def in_flight(self, endpoint: Endpoint) -> int:
        """How many requests of this process are with an instance, also with one that is routed to no more."""
        with self._lock:
            return sum(entry.in_flight for entry in self._entries() if entry.endpoint == endpoint)

    def uses(self) -> dict[str, int]:
        """Requests of this process by process instance; instances without any are left out."""
        found: dict[str, int] = {}
        with self._lock:
            for entry in self._entries():
                if entry.in_flight:
                    instance = entry.endpoint.process_instance
                    found[instance] = found.get(instance, 0) + entry.in_flight
        return found

    def remaining(self, process_instance: str) -> int | None:
        """How many requests of this process are still with an instance that it can pick no more.

        None while the rows of the last reading name the instance, also where it is out for a broken connection: it may
        come back, until they are read again.
        """
        with self._lock:
            if any(endpoint.process_instance == process_instance for endpoint in self._replicas):
                return None
            entries = [entry for entry in self._entries() if entry.endpoint.process_instance == process_instance]
            return sum(entry.in_flight for entry in entries)

    def cut(self, process_instance: str) -> int:
        """End the requests of this process with an instance that it can pick no more; how many. Each fails with
        ModelUnloaded. A second call ends nothing."""
        with self._lock:
            entries = [
                entry
                for endpoint, entry in self._leaving.items()
                if endpoint.process_instance == process_instance and not entry.cut
            ]
            for entry in entries:
                entry.cut = True
            picks = [pick for entry in entries for pick in entry.picks]
        for pick in picks:  # not under the lock: the end of a call may count it down at once
            pick.cut()
        return len(picks)

    def standing(self) -> Standing:
        """What this process may do at this moment."""
        lease = self._lease
        return Standing.STARTING if lease is None else lease.standing(self._clock(), self._lease_ttl_s)

    def age_s(self) -> float:
        """Seconds since the database last confirmed this table."""
        return self._clock() - self._confirmed_at

    def vouches(self, endpoint: Endpoint) -> bool:
        """Whether rows read within a lease name this instance at this address: only then may it be dialled.

        A released port rests for longer than a lease, so nobody else can have it.
        """
        with self._lock:
            return endpoint in self._replicas and self.age_s() < self._lease_ttl_s

    def drop(self, pick: Pick, *, for_good: bool) -> None:
        """Route no more to the instance of a pick, because its call has shown that it does not serve.

        With `for_good` (the process holds no model, or another) only a row of another instance brings the model back.
        Otherwise (the connection broke) the connection is closed at once, and `admit` may bring the instance back when
        rows read from now on still name it. A call that failed on a connection made anew since changes nothing.
        """
        endpoint = pick.endpoint
        with self._lock:
            if not any(pick.is_of(entry) for entry in self._models.get(pick.replica.model, ())):
                return
            self._lost[endpoint] = _Loss(self._clock(), for_good)
            unused = self._leave(endpoint) if for_good else self._take(endpoint) is not None
        if unused:
            self._forget(endpoint)

    # What the feed brings

    def apply(self, snapshot: Snapshot, *, asked_at: float) -> list[Endpoint]:
        """Take over rows whose reading began at `asked_at`; an older version than the table's is thrown away.

        Returns the instances that were lost before the reading began and may be probed.
        """
        with self._lock:
            if snapshot.version < self.version:
                return []
            self.version = snapshot.version
            self._confirmed_at = max(self._confirmed_at, asked_at)
            self._replicas = {endpoint_of(replica): replica for replica in snapshot.replicas}
            self._lost = {endpoint: loss for endpoint, loss in self._lost.items() if endpoint in self._replicas}
            routed = {entry.endpoint for entries in self._models.values() for entry in entries}
            gone = [endpoint for endpoint in routed - self._replicas.keys() if self._leave(endpoint)]
            for endpoint, replica in self._replicas.items():
                if endpoint not in routed and endpoint not in self._lost:
                    leaving = self._leaving.pop(endpoint, None)
                    self._add(leaving or Entry(replica))
            doubtful = [e for e, loss in self._lost.items() if not loss.for_good and loss.lost_at <= asked_at]
        for endpoint in gone:
            self._forget(endpoint)
        self._tell()
        return doubtful

    def confirm(self, version: int, *, asked_at: float) -> bool:
        """Whether the table is of this version; it is then as good as read at `asked_at`."""
        with self._lock:
            if version != self.version:
                return False
            self._confirmed_at = max(self._confirmed_at, asked_at)
            return True

    def admit(self, endpoint: Endpoint) -> bool:
        """Bring back an instance whose broken connection was made anew, if the rows still name it."""
        with self._lock:
            loss, replica = self._lost.get(endpoint), self._replicas.get(endpoint)
            if loss is None or loss.for_good or replica is None:
                return False
            del self._lost[endpoint]
            self._add(Entry(replica))
        self._tell()
        return True

    def lost(self) -> bool:
        """Whether an instance is out although its row was there at the last reading."""
        return bool(self._lost)

    def hold(self, lease: Lease | None) -> None:
        """Judge picks by this lease from now on; None means that this process may not route."""
        self._lease = lease

    def clear(self) -> None:
        """Empty the table: this process is about to register as a new one."""
        with self._lock:
            self._lease = None
            routed = [entry.endpoint for entries in self._models.values() for entry in entries]
            gone = [endpoint for endpoint in routed if self._leave(endpoint)]
            self._replicas, self.version = {}, 0
            self._confirmed_at = float("-inf")
        for endpoint in gone:
            self._forget(endpoint)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change that may have brought a replica."""
        self._listeners.append(listener)

    def on_left(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the last request with a replica that is routed to no more has ended."""
        self._left = listener

    # Inside, under the lock unless said otherwise

    def _require_standing(self) -> None:
        standing = self.standing()
        if standing is Standing.FRESH or (standing is Standing.STALE and self._serve_stale):
            return
        raise StorageUnavailable(f"this process does not know the routes: {standing.value}")

    def _count_down(self, pick: Pick) -> None:
        """Not under the lock."""
        entry = pick.entry
        with self._lock:
            entry.in_flight -= 1
            entry.picks.discard(pick)
            over = entry.in_flight == 0 and self._leaving.get(entry.endpoint) is entry
            if over:
                del self._leaving[entry.endpoint]
        if over:
            self._forget(entry.endpoint)
            self._left()

    def _entries(self) -> Iterable[Entry]:
        for entries in self._models.values():
            yield from entries
        yield from self._leaving.values()

    def _add(self, entry: Entry) -> None:
        self._models.setdefault(entry.replica.model, []).append(entry)

    def _take(self, endpoint: Endpoint) -> Entry | None:
        """Take an instance out of what is routed to."""
        for model, entries in self._models.items():
            for entry in entries:
                if entry.endpoint == endpoint:
                    kept = [other for other in entries if other is not entry]
                    if kept:
                        self._models[model] = kept
                    else:
                        del self._models[model]
                    return entry
        return None

    def _leave(self, endpoint: Endpoint) -> bool:
        """Take an instance out and let its requests end; whether nothing uses it any more."""
        entry = self._take(endpoint)
        if entry is not None and entry.in_flight:
            self._leaving[endpoint] = entry
            return False
        return entry is not None

    def _tell(self) -> None:
        """Not under the lock."""
        for listener in tuple(self._listeners):
            listener()
