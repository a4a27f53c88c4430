"""Which port does the next model process get."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause

HIGHEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class PortBounds:
    """The range as the settings mean it."""

    lowest: int
    highest: int

    @classmethod
    def of(cls, base: int, top: int) -> PortBounds:
        """A top above 65535 is clamped, one below the base port is ignored."""
        return cls(base, HIGHEST_PORT if top < base else min(top, HIGHEST_PORT))


def is_free(host: str, port: int) -> bool:
    """Whether nothing listens on the port.

    Bound with SO_REUSEADDR only: gRPC servers share a taken port silently, and without it a port would be refused for a
    minute after its use.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
        return True


class PortRange:
    """Hands out ports, least recently used first; a released one rests before it is handed out again."""

    def __init__(
        self,
        bounds: PortBounds,
        *,
        quarantine_s: float,
        clock: Callable[[], float],
        free: Callable[[int], bool],
        used_before: Iterable[int] = (),
    ) -> None:
        self._bounds = bounds
        self._quarantine_s = quarantine_s
        self._clock = clock
        self._free = free
        self._lock = threading.Lock()
        self._taken: set[int] = set()
        #: Port -> when it was released; in order of release.
        self._released: dict[int, float] = {}
        self._next = bounds.lowest
        for port in used_before:
            self._released[port] = clock()

    def take(self) -> int:
        """A port that nothing uses. Raises OperationFailed (no_port) when the range is used up."""
        with self._lock:
            port = self._fresh()
            if port is None:
                port = self._rested()
            if port is None:
                raise OperationFailed(Cause.NO_PORT, self._full())
            self._taken.add(port)
            return port

    def release(self, port: int) -> None:
        """The process on the port has ended; the port rests."""
        with self._lock:
            if port in self._taken:
                self._taken.remove(port)
                self._released[port] = self._clock()

    def _fresh(self) -> int | None:
        """The lowest port never handed out. One that somebody else holds is looked at again only after all others."""
        while self._next <= self._bounds.highest:
            port = self._next
            self._next += 1
            if port in self._released or port in self._taken:
                continue
            if self._free(port):
                return port
            self._released[port] = float("-inf")
        return None

    def _rested(self) -> int | None:
        due = self._clock() - self._quarantine_s
        for port, released_at in sorted(self._released.items(), key=lambda item: item[1]):
            if released_at > due:
                return None
            if self._bounds.lowest <= port <= self._bounds.highest and self._free(port):
                del self._released[port]
                return port
        return None

    def _full(self) -> str:
        resting = sum(1 for at in self._released.values() if at > self._clock() - self._quarantine_s)
        return (
            f"no free gRPC port in range: {self._bounds.lowest}-{self._bounds.highest} is fully consumed by "
            f"{len(self._taken)} running backend(s) and {resting} port(s) still in quarantine; "
            "raise LOCALAI_GRPC_MAX_PORT to widen the range"
        )
