"""Which peers are reverse proxies of the operator, and which client they speak for."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

FORWARDED_FOR = "X-Forwarded-For"
#: Of a list of hops, the last ones: a client may send any number.
_HOPS = 16

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxies:
    """The networks of LOCALAI_TRUSTED_PROXIES."""

    def __init__(self, trusted: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(text, strict=False) for text in trusted)

    def trusts(self, peer: str) -> bool:
        """Whether headers about the client may be believed if this peer sends them."""
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)

    def client_of(self, peer: str, forwarded: str) -> str:
        """The address of the client: the last hop that is no trusted proxy."""
        client = _text(peer)
        for hop in reversed(forwarded.split(",")[-_HOPS:]):
            if not self.trusts(client):
                break
            address = _address(_without_port(hop.strip()))
            if address is None:
                break
            client = str(address)
        return client


def _address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _text(peer: str) -> str:
    address = _address(peer)
    return str(address) if address is not None else ""


def _without_port(hop: str) -> str:
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
