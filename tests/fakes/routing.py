"""Rows of web processes and replicas that a test changes by hand, with the rules that the statements enforce."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from localai.errors import StorageUnavailable
from localai.ids import FrontendId
from localai.inference.ports import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A loaded replica with valid values; a test names what it is about."""

    replica_id: str = "replica-1"
    model: str = "m"
    slot: int = 0
    node_id: str = "node-1"
    node_name: str = "one"
    address: str = "127.0.0.1:50051"
    process_instance: str = "instance-1"
    identity: str = "m"
    revision: str = "r1"
    process_secret: str | None = None

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(node_id=self.node_id, address=self.address, process_instance=self.process_instance)


@dataclass(frozen=True, slots=True)
class FakeSnapshot:
    version: int
    replicas: tuple[Replica, ...]


@dataclass(frozen=True, slots=True)
class FakeDrain:
    replica_id: str
    process_instance: str
    said: int | None
    cut: bool = False


class FakeClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class FakeRows:
    """`replicas`, `routing_version` and `frontends` of one database, with one clock."""

    clock: Callable[[], float]
    lease_ttl_s: float = 90.0
    version: int = 1
    replicas: tuple[Replica, ...] = ()
    refusing: bool = False
    calls: list[str] = field(default_factory=list)
    leases: dict[FrontendId, float] = field(default_factory=dict)
    #: Replicas that are being taken away, and what each process said of them, as rows of replica, process and count.
    leaving: tuple[Replica, ...] = ()
    said: list[tuple[str, FrontendId, int]] = field(default_factory=list)
    #: Ids of replicas whose requests are to be cut.
    cut: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def set(self, *replicas: Replica) -> None:
        with self._lock:
            self.replicas, self.version = replicas, self.version + 1

    def take_away(self, replica: Replica) -> None:
        """Mark a replica, as an edit or an unload does."""
        self.set(*(other for other in self.replicas if other != replica))
        self.leaving += (replica,)

    def open_drains(self, frontend_id: FrontendId) -> list[FakeDrain]:
        self._refuse()
        last = {replica: count for replica, frontend, count in self.said if frontend == frontend_id}
        return [
            FakeDrain(gone.replica_id, gone.process_instance, last.get(gone.replica_id), gone.replica_id in self.cut)
            for gone in self.leaving
            if last.get(gone.replica_id) != 0
        ]

    def acknowledge(self, frontend_id: FrontendId, replica_id: str, in_flight: int) -> None:
        self._refuse()
        if self.leases.get(frontend_id, 0.0) > self.clock():
            self.said.append((replica_id, frontend_id, in_flight))

    def routing_snapshot(self) -> FakeSnapshot:
        self._note("snapshot")
        with self._lock:
            return FakeSnapshot(self.version, self.replicas)

    def routing_version(self) -> int:
        self._note("version")
        return self.version

    def register(self, host: str, pid: int, url: str | None, instance_id: str = "") -> FrontendId:
        self._note("register")
        frontend = FrontendId(f"frontend-{next(self._numbers)}")
        self.leases[frontend] = self.clock() + self.lease_ttl_s
        return frontend

    def renew(self, frontend_id: FrontendId, in_flight: Mapping[str, int]) -> bool:
        self._note("renew")
        if self.leases.get(frontend_id, 0.0) <= self.clock():
            return False
        self.leases[frontend_id] = self.clock() + self.lease_ttl_s
        return True

    def end(self, frontend_id: FrontendId) -> None:
        self._note("end")
        self.leases.pop(frontend_id, None)

    def _note(self, call: str) -> None:
        self._refuse()
        self.calls.append(call)

    def _refuse(self) -> None:
        if self.refusing:
            raise StorageUnavailable


@dataclass
class FakeConnections:
    """Connections to instances; `reachable` are those a probe finds."""

    reachable: set[Endpoint] = field(default_factory=set)
    forgotten: list[Endpoint] = field(default_factory=list)
    probed: list[Endpoint] = field(default_factory=list)

    def forget(self, endpoint: Endpoint) -> None:
        self.forgotten.append(endpoint)

    def probe(self, endpoint: Endpoint) -> bool:
        self.probed.append(endpoint)
        return endpoint in self.reachable
