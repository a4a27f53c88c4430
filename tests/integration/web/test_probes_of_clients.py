"""A client whose socket this machine cannot see is probed with bytes that HTTP allows."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import gevent
import gevent.event
import pytest
from gevent.socket import wait_read

from localai import tls
from tests.certificates import Authority
from web import client_watch
from web.client_watch import ClientWatch
from web.tcp_state import PeerEnd, State, peer_end, state_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]

LIMIT_S = 10.0
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
COMMENT = b"e\r\n: keep-alive\n\n\r\n"


class Pair:
    """Both ends of a TCP connection on loopback, and a watch of the server's end."""

    def __init__(self, listener: socket.socket, host: str) -> None:
        self.client = socket.create_connection((host, listener.getsockname()[1]), timeout=LIMIT_S)
        self.server, _ = listener.accept()
        self.gone = gevent.event.Event()

    def watch(self, protocol: str = "HTTP/1.1", seen_as: PeerEnd = PeerEnd.UNKNOWN) -> ClientWatch:
        return ClientWatch(self.server, protocol, lambda _: seen_as)

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture(params=["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def any_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    yield from _pairs(request.param)


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from _pairs("127.0.0.1")


def _pairs(host: str) -> Iterator[Pair]:
    mapped = host.startswith("::ffff:")
    listener = socket.create_server(
        ("::" if mapped else host, 0),
        family=socket.AF_INET6 if ":" in host else socket.AF_INET,
        dualstack_ipv6=mapped,
    )
    with listener:
        pair = Pair(listener, host.removeprefix("::ffff:"))
        yield pair
        pair.close()


def received(pair: Pair, wanted: bytes) -> bytes:
    """What the client reads, up to as many bytes as are wanted."""
    data = b""
    with gevent.Timeout(LIMIT_S):
        while len(data) < len(wanted):
            wait_read(pair.client.fileno())
            data += pair.client.recv(len(wanted) - len(data))
    return data


def reading(pair: Pair, watch: ClientWatch) -> None:
    """Begin a stream whose first event has left."""
    pieces = watch.sending(_silent_after(b"data: x\n\n"))
    next(pieces)
    gevent.spawn(next, pieces, None)
    gevent.idle()


def _silent_after(*pieces: bytes) -> Iterator[bytes]:
    yield from pieces
    gevent.event.Event().wait(LIMIT_S)


def test_the_socket_table_tells_a_half_closed_client_from_a_closed_one(any_pair: Pair) -> None:
    pair = any_pair
    pair.client.sendall(b"\r\n")
    assert (state_of(pair.server), peer_end(pair.server)) == (State.OPEN, PeerEnd.HELD)
    pair.client.shutdown(socket.SHUT_WR)
    assert (state_of(pair.server), peer_end(pair.server)) == (State.INPUT_ENDED, PeerEnd.HELD)
    pair.client.close()
    assert (state_of(pair.server), peer_end(pair.server)) == (State.INPUT_ENDED, PeerEnd.CLOSED)


def test_a_reset_is_seen_although_bytes_are_unread(pair: Pair) -> None:
    pair.server.sendall(b"unread by the client")
    pair.client.sendall(b"unread by the server")
    pair.client.close()
    assert state_of(pair.server) is State.BROKEN


def test_a_kernel_without_tcp_info_is_asked_below_tls(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Authority(tmp_path).issue("IP:127.0.0.1")
    monkeypatch.setattr("sys.platform", "darwin")
    context = tls.server_context(own.cert, own.key)
    with context.wrap_socket(pair.server, server_side=True, do_handshake_on_connect=False) as connection:
        assert state_of(connection) is State.OPEN
        pair.client.shutdown(socket.SHUT_WR)
        assert state_of(connection) is State.INPUT_ENDED


def test_an_interim_response_finds_a_closed_client(pair: Pair) -> None:
    watch = pair.watch()
    with watch.during(pair.gone.set):
        pair.client.close()
        assert pair.gone.wait(LIMIT_S)
    assert watch.gone


def test_a_half_closed_client_reads_an_interim_response_and_its_call_goes_on(pair: Pair) -> None:
    watch = pair.watch()
    with watch.during(pair.gone.set):
        pair.client.shutdown(socket.SHUT_WR)
        assert received(pair, INTERIM * 2) == INTERIM * 2
        assert not watch.gone
        pair.client.close()
        assert pair.gone.wait(LIMIT_S)


def test_a_half_closed_client_of_a_silent_stream_reads_comments(pair: Pair) -> None:
    watch = pair.watch()
    with watch.during(pair.gone.set):
        reading(pair, watch)
        pair.client.shutdown(socket.SHUT_WR)
        assert received(pair, COMMENT * 2) == COMMENT * 2
        pair.client.close()
        assert pair.gone.wait(LIMIT_S)


def test_no_probe_is_mixed_into_an_event_that_is_written(pair: Pair) -> None:
    watch = pair.watch()
    pieces = watch.sending(iter([b"data: x\n\n"]))
    with watch.during(pair.gone.set):
        next(pieces)
        pair.client.shutdown(socket.SHUT_WR)
        assert not pair.gone.wait(2)
    pair.client.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.client.recv(1)


def test_http_1_0_knows_no_interim_response_so_the_end_of_input_ends_the_call(pair: Pair) -> None:
    watch = pair.watch("HTTP/1.0")
    with watch.during(pair.gone.set):
        pair.client.shutdown(socket.SHUT_WR)
        assert pair.gone.wait(LIMIT_S)


def test_a_relay_that_hands_on_the_end_of_input_is_probed_later(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_watch, "_TRUST_S", 1.0)
    watch = pair.watch(seen_as=PeerEnd.HELD)
    with watch.during(pair.gone.set):
        pair.client.close()
        assert pair.gone.wait(LIMIT_S)


def test_a_closed_watch_sends_nothing_more(pair: Pair) -> None:
    watch = pair.watch()
    with watch.during(pair.gone.set):
        pair.client.shutdown(socket.SHUT_WR)
        assert received(pair, INTERIM) == INTERIM
    watch.close()
    assert not pair.gone.wait(2)
    pair.client.setblocking(False)
    with pytest.raises(BlockingIOError):
        pair.client.recv(1)
