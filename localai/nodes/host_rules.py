"""The host in an address: of a node, whether a process of it listens there, and whether other machines reach it.

Frontends send prompts to the address of a process. A node that may name any host could have them sent anywhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from localai.errors import BadInput


def host_of(address: str | None) -> str:
    """The host of ``host:port`` in lower case, without the brackets of an IPv6 address; empty for no address."""
    host, colon, port = (address or "").strip().rpartition(":")
    if not colon or not port.isdecimal():
        host = (address or "").strip()
    return host.removeprefix("[").removesuffix("]").rstrip(".").lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on the host. An empty host means every address."""
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_process_addresses(registered: str | None, addresses: Iterable[tuple[str, str | None]]) -> None:
    """Refuse an address of another host than the one that the node registered.

    ``addresses`` are names of fields with their values; None where a process has no address yet. Raises BadInput.
    """
    host = host_of(registered)
    for field, address in addresses:
        if address is not None and host_of(address) != host:
            raise BadInput(field, address, f"host:port with the host that this node registered, {host or 'none'}")
