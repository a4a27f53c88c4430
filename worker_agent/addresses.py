"""Where does this agent listen, and under which addresses is it reached?"""

from __future__ import annotations

from dataclasses import dataclass

from localai.nodes.listening import host_and_port, http_place, serve_place
from localai.settings import Settings

_ANY = ("", "0.0.0.0")


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
    def dial_host(self) -> str:
        """Where the agent itself reaches its model processes."""
        return "127.0.0.1" if self.bind_host in _ANY else self.bind_host

    @property
    def base(self) -> str:
        """The gRPC base address of this node."""
        return f"{self.advertise_host}:{self.advertise_port}"

    def advertised(self, port: int) -> str:
        """Where frontends dial a model process that listens on ``port``."""
        return f"{self.advertise_host}:{port}"

    @classmethod
    def of(cls, settings: Settings, hostname: str) -> Addresses:
        """Raises BadSetting for a text that is not ``host:port``."""
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
        return cls(
            bind_host=bind_host or "0.0.0.0",
            base_port=base_port,
            advertise_host=advertise_host,
            advertise_port=advertise_port,
            http_host=http_host or "0.0.0.0",
            http_port=http_port,
            advertised_http=advertised_http,
        )
