"""What a client of the worker's HTTP server may cost: bytes, seconds and connections."""

from __future__ import annotations

from collections import Counter
from typing import Any

from waitress.channel import HTTPChannel

#: No route takes a body; it is read to keep the connection in step.
BODY_BYTES, HEAD_BYTES = 64 * 1024, 16 * 1024
#: A request is complete this long after the connection or the answer before it, or the connection is closed.
REQUEST_S = 15
#: How often connections are looked at for that.
_LOOK_S = 2
#: Connections without a complete request. One more displaces the oldest one of the client that has most of them.
IDLE_MOST = 64
#: All connections; those with complete requests wait for a thread.
_CONNECTIONS = 256


def adjustments(request_s: int = REQUEST_S) -> dict[str, Any]:
    """Arguments of waitress."""
    return {
        "max_request_body_size": BODY_BYTES,
        "max_request_header_size": HEAD_BYTES,
        "channel_timeout": request_s,
        "cleanup_interval": min(_LOOK_S, request_s),
        "connection_limit": _CONNECTIONS,
        "asyncore_use_poll": True,  # select takes no descriptor above 1,023
    }


class Channel(HTTPChannel):
    """A connection that neither bytes without end nor company keeps open."""

    def __init__(self, server: Any, sock: Any, addr: Any, adj: Any, map: Any = None) -> None:
        super().__init__(server, sock, addr, adj, map=map)
        _make_room(list(server.active_channels.values()))

    def handle_read(self) -> None:
        """Bytes of a request that is not complete do not count as activity."""
        before = self.last_activity
        super().handle_read()
        if not self.requests:
            self.last_activity = before


def _make_room(channels: list[Any]) -> None:
    idle = [channel for channel in channels if not channel.requests and not channel.will_close]
    if len(idle) <= IDLE_MOST:
        return
    (busiest, _), *_ = Counter(channel.addr[0] for channel in idle).most_common(1)
    oldest = min((one for one in idle if one.addr[0] == busiest), key=lambda one: float(one.creation_time))
    oldest.will_close = True
