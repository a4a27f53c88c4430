"""The client of a request is the last hop that is no trusted proxy."""

from __future__ import annotations

import pytest

from web.proxies import Proxies

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("127.0.0.1", "203.0.113.5, 198.51.100.7", "198.51.100.7"),
        ("::ffff:127.0.0.1", "203.0.113.5, 198.51.100.7, 10.0.0.3", "198.51.100.7"),
        ("127.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
        ("127.0.0.1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("127.0.0.1", "198.51.100.7, nonsense", "127.0.0.1"),
        ("127.0.0.1", "\x1b[31m", "127.0.0.1"),
        ("", "198.51.100.7", ""),
    ],
)
def test_the_client(peer: str, forwarded: str, client: str) -> None:
    assert Proxies(("127.0.0.1", "::1", "10.0.0.0/8")).client_of(peer, forwarded) == client


def test_a_long_list_of_hops_is_not_read_whole() -> None:
    assert Proxies(("0.0.0.0/0",)).client_of("10.0.0.1", "10.0.0.2," * 100_000 + "10.0.0.3") == "10.0.0.2"
