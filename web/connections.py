"""Connections of one web process: a client without a credential cannot take the places of those with one.

A connection is *vouched* from the moment a request on it shows an accepted credential until its next request begins.
Connections that are not vouched have a bound for each client address and one in total; what is left of the process's
places is the reserve of vouched ones. A new connection is never refused: above a bound the oldest one that is not
vouched is closed, so a client that sends its request at once is served beside any number of clients that do not.
Kept-alive vouched connections that wait for their next request are closed last, if the process is nearly full.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from types import TracebackType

import gevent

from localai import metrics

#: Parts of a process's places that connections without a credential may have, and at which idle ones are closed.
_UNVOUCHED, _NEARLY_FULL = 0.75, 0.95
#: A client has a whole network of this size with IPv6.
_IPV6_PREFIX = 64
_ATTRIBUTE = "localai_connection"


class Connection:
    """One connection, as long as it is open. A context of the greenlet that serves it."""

    __slots__ = ("_all", "_shut", "address", "idle", "requests", "vouched")

    def __init__(self, connections: Connections, address: str, shut: Callable[[], None]) -> None:
        self._all, self.address, self._shut = connections, address, shut
        self.vouched = self.idle = False
        self.requests = 0

    def __enter__(self) -> Connection:
        setattr(gevent.getcurrent(), _ATTRIBUTE, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def begin_request(self) -> None:
        """A request has arrived; what an earlier one showed does not count for it."""
        self.requests += 1
        self._all.move(self, vouched=False, idle=False)

    def vouch(self) -> None:
        """The request under way showed a credential that is accepted."""
        self._all.move(self, vouched=True, idle=False)

    def end_request(self) -> None:
        """The answer has left."""
        self._all.move(self, vouched=self.vouched, idle=True)

    def end(self) -> None:
        """The connection is closed."""
        self._all.forget(self)

    def close(self) -> None:
        """Make the greenlet of the connection end."""
        self._shut()


class Connections:
    """The open connections of a process and their bounds."""

    def __init__(self, most: int, per_address: int, trusts: Callable[[str], bool]) -> None:
        self._most, self._per_address, self._trusts = most, per_address, trusts
        self._most_unvouched = max(1, int(most * _UNVOUCHED))
        self._nearly_full = max(1, int(most * _NEARLY_FULL))
        self._open: set[Connection] = set()
        #: Oldest first, by client address. Many clients of a proxy have its address.
        self._unvouched: dict[str, dict[Connection, None]] = {}
        self._unvouched_count = 0
        #: Vouched and without a request, longest first.
        self._idle: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, peer: str, shut: Callable[[], None]) -> Connection:
        """A new connection, for which another may have to be closed."""
        connection = Connection(self, client_of(peer), shut)
        bounded = self._per_address > 0 and not self._trusts(peer)
        if bounded and len(self._unvouched.get(connection.address, ())) >= self._per_address:
            self._close(next(iter(self._unvouched[connection.address])), "address")
        if self._unvouched_count >= self._most_unvouched:
            fullest = max(self._unvouched.values(), key=len)
            self._close(next(iter(fullest)), "total")
        if len(self._open) >= self._nearly_full and self._idle:
            self._close(next(iter(self._idle)), "idle")
        self._open.add(connection)
        self._list(connection)
        return connection

    def move(self, connection: Connection, *, vouched: bool, idle: bool) -> None:
        """A connection changes. One that was closed meanwhile stays forgotten."""
        if connection not in self._open or (connection.vouched, connection.idle) == (vouched, idle):
            return
        if connection.vouched or vouched:
            self._unlist(connection)
            connection.vouched, connection.idle = vouched, idle
            self._list(connection)
        else:
            connection.idle = idle  # its age stays

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        if connection in self._open:
            self._open.discard(connection)
            self._unlist(connection)

    def _close(self, connection: Connection, bound: str) -> None:
        self.forget(connection)
        metrics.CONNECTIONS_CLOSED.labels(bound).inc()
        connection.close()

    def _list(self, connection: Connection) -> None:
        if not connection.vouched:
            self._unvouched.setdefault(connection.address, {})[connection] = None
            self._unvouched_count += 1
        elif connection.idle:
            self._idle[connection] = None

    def _unlist(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        if not connection.vouched:
            same = self._unvouched[connection.address]
            del same[connection]
            self._unvouched_count -= 1
            if not same:
                del self._unvouched[connection.address]


def current() -> Connection | None:
    """The connection of the request under way; None outside of the HTTP server."""
    return getattr(gevent.getcurrent(), _ATTRIBUTE, None)


def vouch() -> None:
    """The request under way showed a credential that is accepted."""
    connection = current()
    if connection is not None:
        connection.vouch()


def client_of(peer: str) -> str:
    """The text under which the connections of a client are counted."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
