"""Connections that show no credential are bounded, and the oldest of them gives way to a new one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from web.connections import Connection, Connections

pytestmark = pytest.mark.unit


class Opened:
    """Connections of a process with few places."""

    def __init__(self, most: int = 20, per_address: int = 4, proxy: str = "127.0.0.1") -> None:
        self.all = Connections(most, per_address, lambda peer: peer == proxy)
        self.closed: list[Connection] = []

    def open(self, peer: str = "192.0.2.1") -> Connection:
        opened: list[Connection] = []
        shut: Callable[[], None] = lambda: self.closed.append(opened[0])  # noqa: E731
        opened.append(self.all.admit(peer, shut))
        return opened[0]


def test_above_the_bound_of_an_address_its_oldest_connection_is_closed() -> None:
    opened = Opened()
    other = opened.open("192.0.2.9")
    first, *_ = [opened.open() for _ in range(4)]
    assert not opened.closed
    opened.open()
    assert opened.closed == [first] and other not in opened.closed


def test_a_connection_that_showed_a_credential_does_not_count_and_is_not_closed() -> None:
    opened = Opened()
    for _ in range(10):
        connection = opened.open()
        connection.begin_request()
        connection.vouch()
    assert not opened.closed
    for _ in range(4):
        opened.open()
    assert not opened.closed


def test_what_a_request_showed_does_not_count_for_the_next_one() -> None:
    opened = Opened()
    connection = opened.open()
    connection.begin_request()
    connection.vouch()
    connection.end_request()
    connection.begin_request()
    for _ in range(4):
        opened.open()
    assert opened.closed == [connection]


def test_a_proxy_has_the_total_bound_only_and_leaves_the_reserve() -> None:
    opened = Opened()
    slow = [opened.open("127.0.0.1") for _ in range(15)]
    assert not opened.closed
    other = opened.open("192.0.2.1")
    assert opened.closed == [slow[0]], "the address with most connections gives way"
    for _ in range(100):
        opened.open("127.0.0.1")
    assert other not in opened.closed and len(opened.all) == 15


def test_an_address_without_a_bound_is_bounded_in_total() -> None:
    opened = Opened(per_address=0)
    for _ in range(40):
        opened.open()
    assert len(opened.all) == 15


def test_the_longest_idle_connection_is_closed_only_if_the_process_is_nearly_full() -> None:
    opened = Opened()
    known = [opened.open("127.0.0.1") for _ in range(5)]
    for connection in known:
        connection.begin_request()
        connection.vouch()
        connection.end_request()
    known[0].begin_request()
    known[0].vouch()
    for _ in range(14):
        opened.open("127.0.0.1")
    assert not opened.closed
    opened.open("127.0.0.1")
    assert opened.closed == [known[1]]


def test_an_ended_connection_gives_its_place_back() -> None:
    opened = Opened()
    for _ in range(50):
        with opened.open():
            pass
    assert not opened.closed and not len(opened.all)


@pytest.mark.parametrize(
    ("one", "other"),
    [("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:192.0.2.1", "192.0.2.1"), ("fe80::1%eth0", "fe80::2%eth1")],
)
def test_one_client_has_one_bound(one: str, other: str) -> None:
    opened = Opened(per_address=1)
    first = opened.open(one)
    opened.open(other)
    assert opened.closed == [first]


def test_a_closed_connection_stays_forgotten() -> None:
    opened = Opened(per_address=1)
    first = opened.open()
    opened.open()
    first.begin_request()
    first.vouch()
    first.end_request()
    first.end()
    assert len(opened.all) == 1
