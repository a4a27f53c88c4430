"""Where this agent listens, and under which addresses it is reached."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass

from localai.nodes.listening import host_and_port, http_place, serve_place
from localai.settings import Settings

_ANY = ("", "0.0.0.0")


def own_address(host: str) -> str | None:
    """The one IPv4 address of this machine that others reach under a host name or address.

    None if there is none (the name is of a router or a port forward), if there are several, and for a name that this
    machine alone maps to loopback, as Debian does with its host name.
    """
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return None
    if len(found) != 1:
        return None
    (address,) = found
    if ipaddress.ip_address(address).is_loopback and host not in (address, "localhost"):
        return None
    return address if is_local(address) else None


def is_local(address: str) -> bool:
    """Whether this machine has the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Hosts and ports of one agent."""

    bind_host: str
    base_port: int
    advertise_host: str
    advertise_port: int
    http_host: str
    http_port: int
    advertised_http: str

    @property
    def on_every_address(self) -> bool:
        """Whether model processes listen on every address of this machine."""
        return self.bind_host in _ANY

    @property
    def dial_host(self) -> str:
        """Where the agent itself reaches its model processes."""
        return "127.0.0.1" if self.on_every_address else self.bind_host

    @property
    def base(self) -> str:
        """The gRPC base address of this node."""
        return f"{self.advertise_host}:{self.advertise_port}"

    def advertised(self, port: int) -> str:
        """Where frontends dial a model process that listens on ``port``."""
        return f"{self.advertise_host}:{port}"

    @classmethod
    def of(cls, settings: Settings, hostname: str, own_address: Callable[[str], str | None] = own_address) -> Addresses:
        """Raises BadSetting for a text that is not ``host:port``.

        If no setting says where model processes listen, they listen on the advertised address, or on every address if
        the advertised one is none of this machine's own.
        """
        bind_host, base_port = serve_place(settings)
        http_host, http_port = http_place(settings)
        reachable = hostname if bind_host in _ANY else bind_host
        advertise_host, advertise_port = reachable, base_port
        advertised_http = f"{hostname if http_host in _ANY else http_host}:{http_port}"
        if settings.addr:
            advertise_host, advertise_port = host_and_port("LOCALAI_ADDR", settings.addr)
            advertised_http = f"{advertise_host}:{http_port}"
        if settings.advertise_addr:
            advertise_host, advertise_port = host_and_port("LOCALAI_ADVERTISE_ADDR", settings.advertise_addr)
        if settings.advertise_http_addr:
            host_and_port("LOCALAI_ADVERTISE_HTTP_ADDR", settings.advertise_http_addr)
            advertised_http = settings.advertise_http_addr
        if not settings.serve_addr:
            bind_host = own_address(advertise_host) or "0.0.0.0"
        return cls(
            bind_host=bind_host or "0.0.0.0",
            base_port=base_port,
            advertise_host=advertise_host,
            advertise_port=advertise_port,
            http_host=http_host or "0.0.0.0",
            http_port=http_port,
            advertised_http=advertised_http,
        )
