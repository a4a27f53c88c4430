"""What the routing table asks of the rows and of the connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from localai.ids import FrontendId
from localai.inference.ports import Endpoint


class LoadedReplica(Protocol):
    """One replica that may be routed to."""

    @property
    def replica_id(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def slot(self) -> int: ...
    @property
    def node_id(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def process_instance(self) -> str: ...
    @property
    def process_secret(self) -> str | None:
        """Secret that each call to the process sends; None if the process has none."""

    @property
    def identity(self) -> str:
        """The very Model string LoadModel got."""

    @property
    def revision(self) -> str: ...


class Snapshot(Protocol):
    """Every replica that may be routed to, and the version of the routing at that moment."""

    @property
    def version(self) -> int: ...
    @property
    def replicas(self) -> Sequence[LoadedReplica]: ...


class RoutingRows(Protocol):
    """The rows the table is made from. Both raise StorageUnavailable."""

    def routing_snapshot(self) -> Snapshot:
        """Rows and version in one snapshot of the database."""

    def routing_version(self) -> int:
        """The version alone."""


class Frontends(Protocol):
    """The rows of web processes. All raise StorageUnavailable."""

    def register(self, host: str, pid: int, url: str | None, instance_id: str = "") -> FrontendId:
        """A new row with a new lease, committed."""

    def renew(self, frontend_id: FrontendId, in_flight: Mapping[str, int]) -> bool:
        """Extend the lease; False when it has lapsed, and then it stays lapsed.

        ``in_flight``: requests of this process by process instance, for people who look.
        """

    def end(self, frontend_id: FrontendId) -> None:
        """The process is over: nobody waits for it any more."""


class OpenDrain(Protocol):
    """A replica that is being taken away, and what this process has said about it."""

    @property
    def replica_id(self) -> str: ...
    @property
    def process_instance(self) -> str: ...
    @property
    def said(self) -> int | None:
        """The count of the last acknowledgement, None before the first."""

    @property
    def cut(self) -> bool:
        """Whether requests of this process with the replica are to be ended now."""


class Drains(Protocol):
    """What web processes say about replicas that are being taken away. Both raise StorageUnavailable."""

    def open_drains(self, frontend_id: FrontendId) -> Sequence[OpenDrain]:
        """Those this process is not done with."""

    def acknowledge(self, frontend_id: FrontendId, replica_id: str, in_flight: int) -> None:
        """This process routes no more to the replica and has so many requests with it; 0 ends what it has to say."""


class Connections(Protocol):
    """The connections to model processes, as far as the table decides about them."""

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection to an instance."""

    def probe(self, endpoint: Endpoint) -> bool:
        """Whether a new connection to the instance can be made; it is kept when it can."""
