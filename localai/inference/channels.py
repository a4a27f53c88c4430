"""How is a model process reached: one connection per process instance, dialled once and never again.

A gRPC channel connects anew whenever a call finds it without a connection, and by then another model may listen on the
port. So a channel here is dialled once, each call first looks whether that connection still stands, and a channel that
lost it is closed. Reaching the process again needs a new endpoint, read from a row since.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from localai.errors import BackendUnavailable, ConnectTimeout
from localai.inference.ports import Endpoint
from localai.inference.process_secrets import metadata
from protos import backend_pb2, backend_pb2_grpc

#: Both ends of the protocol agree on it.
MESSAGE_LIMIT_BYTES = 50 * 1024 * 1024
#: A model process listens before its replica is routable, so a dial that takes longer has met a dead machine.
DIAL_TIMEOUT_S = 5.0

#: How long a process has to answer Health, after a call ended with a status that a broken connection has as well.
_HEALTH_TIMEOUT_S = 5.0

#: Servers with default settings of gRPC allow one ping without data in this time. They count the ones that come sooner,
#: and after the second end the connection with every call on it.
LEAST_PING_INTERVAL_S = 300.0


@dataclass(frozen=True, slots=True)
class Keepalive:
    """How a connection is tested while a call on it is silent."""

    #: A ping after this long without a byte from the process; 0 means no pings.
    after_s: float = 330.0
    #: The connection is lost if a ping, or bytes that were sent, are not acknowledged for this long. Longer than any
    #: pause of a process that counts as busy.
    timeout_s: float = 120.0

    def options(self) -> tuple[tuple[str, int], ...]:
        """As options of a channel."""
        if not self.after_s:
            return ()
        timeout_ms = round(self.timeout_s * 1000)
        return (
            ("grpc.keepalive_time_ms", round(self.after_s * 1000)),
            # The system gives up by it (TCP_USER_TIMEOUT), also if a stopped process reads nothing of a long request.
            ("grpc.keepalive_timeout_ms", timeout_ms),
            # A ping is given up by this one; by default after a minute, whatever the option above says.
            ("grpc.http2.ping_timeout_ms", timeout_ms),
        )


_KEEPALIVE = Keepalive()
_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    # By default two channels to one address share a connection: that of the instance that had the port before.
    ("grpc.use_local_subchannel_pool", 1),
    # A repeated call is the router's decision, which knows whether the client has seen anything.
    ("grpc.enable_retries", 0),
    # The default closes a connection after half an hour without a call, which would look like a dead process.
    ("grpc.client_idle_timeout_ms", 2**31 - 1),
    ("grpc.enable_http_proxy", 0),
)

#: Statuses that gRPC makes by itself if no answer comes.
_NO_ANSWER = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED)

_SETTLED = (
    grpc.ChannelConnectivity.READY,
    grpc.ChannelConnectivity.TRANSIENT_FAILURE,
    grpc.ChannelConnectivity.SHUTDOWN,
)


Vouch = Callable[[Endpoint], bool]


class Connection:
    """The one connection to one process instance."""

    def __init__(self, endpoint: Endpoint, vouch: Vouch, keepalive: Keepalive) -> None:
        self._endpoint, self._vouch = endpoint, vouch
        self._channel = grpc.insecure_channel(endpoint.address, options=(*_OPTIONS, *keepalive.options()))
        # Made once: it builds an object for each of the protocol's calls.
        self.calls = backend_pb2_grpc.BackendStub(self._channel)  # type: ignore[no-untyped-call]
        self._dialling = threading.Lock()
        self._dialled = False
        #: The dial was given up because its time was over.
        self._late = False
        self._closed = False

    def require(self, timeout_s: float | None) -> None:
        """Dial if that was not done yet. Raises BackendUnavailable without a connection, and closes for good."""
        if not self._dialled:
            with self._dialling:
                if not self._dialled:
                    self._dialled = self._dial(timeout_s)
        if not self._dialled or not self._connected():
            late, self._late = self._late, False
            self.close()
            if late:
                raise ConnectTimeout(
                    f"the model process at {self._endpoint.address} accepted no connection within {timeout_s:g} s; "
                    "LOCALAI_CONNECT_TIMEOUT, or timeouts.connect in the model's config, sets the limit",
                    endpoint=self._endpoint,
                )
            raise BackendUnavailable(
                f"no connection to the model process at {self._endpoint.address}", endpoint=self._endpoint
            )

    def answers(self) -> bool:
        """Whether the connection still stands and the process answers on it."""
        if not self._connected():
            return False
        try:
            shown = metadata(self._endpoint.secret)
            self.calls.Health(backend_pb2.HealthMessage(), timeout=_HEALTH_TIMEOUT_S, metadata=shown)
        except ValueError:  # closed by another greenlet meanwhile
            return False
        except grpc.RpcError as error:
            return error.code() not in _NO_ANSWER
        return True

    def close(self) -> None:
        """End the connection and every call on it."""
        self._closed = True
        self._channel.close()

    def _dial(self, timeout_s: float | None) -> bool:
        if self._closed:
            return False
        states: list[grpc.ChannelConnectivity] = []
        settled = threading.Event()

        def note(state: grpc.ChannelConnectivity) -> None:
            if state in _SETTLED:
                states.append(state)
                settled.set()

        self._channel.subscribe(note, try_to_connect=True)
        try:
            self._late = not settled.wait(timeout_s)
        finally:
            self._channel.unsubscribe(note)
        # Asked after the dial: whatever happened before it, the listener is the instance.
        return bool(states) and states[0] is grpc.ChannelConnectivity.READY and self._vouch(self._endpoint)

    def _connected(self) -> bool:
        """Whether the connection stands at this moment; never makes a new one."""
        if self._closed:
            return False
        # The public way to the state is a subscription, which polls five times a second for each process.
        core: Any = self._channel._channel  # type: ignore[attr-defined]
        try:
            return bool(core.check_connectivity_state(False) == _CORE_READY)
        except ValueError:  # closed by another greenlet meanwhile
            return False


#: The core's number of READY.
_CORE_READY = grpc.ChannelConnectivity.READY.value[0]


class Channels:
    """The connections of this process.

    `vouch` says whether an instance is known to have its address still; a dial counts only if it does.
    """

    def __init__(self, *, vouch: Vouch = lambda _: True, keepalive: Keepalive = _KEEPALIVE) -> None:
        self._vouch, self._keepalive = vouch, keepalive
        self._connections: dict[Endpoint, Connection] = {}
        self._lock = threading.Lock()

    def connection(self, endpoint: Endpoint, dial_timeout_s: float | None = DIAL_TIMEOUT_S) -> Connection:
        """The connection to an instance, dialled at its first use.

        Raises BackendUnavailable when it cannot be dialled or has been lost, ConnectTimeout when the dial took longer
        than `dial_timeout_s` (None is no limit); the instance stays lost until `forget`.
        """
        with self._lock:
            connection = self._connections.get(endpoint)
            if connection is None:
                connection = self._connections[endpoint] = Connection(endpoint, self._vouch, self._keepalive)
        connection.require(dial_timeout_s)
        return connection

    def forget(self, endpoint: Endpoint) -> None:
        """Close the connection of an instance. A later `connection` dials anew, so a row must have been read since."""
        with self._lock:
            connection = self._connections.pop(endpoint, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            connection.close()
