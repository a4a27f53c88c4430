"""State of a TCP connection as the kernel reports it: the own end, and the client's end if it is on this machine."""

from __future__ import annotations

import _socket
import errno
import fcntl
import os
import socket
import struct
import sys
import termios
from enum import Enum, auto


class State(Enum):
    """The own end of a connection."""

    OPEN = auto()
    #: The client sent its end of input (FIN): it closed the connection, or only the sending direction.
    INPUT_ENDED = auto()
    #: Reset, or closed by keepalive.
    BROKEN = auto()


class PeerEnd(Enum):
    """The client's end of a connection."""

    #: A process holds the socket: it can still read.
    HELD = auto()
    CLOSED = auto()
    #: The client is on another machine or in another network namespace.
    UNKNOWN = auto()


# Values of tcpi_state and of inet_diag_msg.idiag_state (linux/tcp_states.h).
_TCP_CLOSE = 7
_TCP_CLOSE_WAIT = 8
_TCP_LISTEN = 10

#: A host that vanished without a FIN is noticed after about a minute; a closed Linux client forgets its connection
#: after a minute as well (tcp_fin_timeout) and then answers a keepalive probe with a reset.
_KEEPALIVE = (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4))

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_HEADER = struct.Struct("=IHHII")
_ALL_STATES = 0xFFFFFFFF
_NO_COOKIE = b"\xff" * 8
#: Offsets in the reply: the message after its header, and its state and inode in inet_diag_msg.
_STATE_AT, _INODE_AT = 1, 68


def keep_alive(connection: socket.socket) -> None:
    """Have the kernel probe an idle connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def state_of(connection: socket.socket) -> State:
    """The state of the own end; unread bytes make no difference where the kernel offers TCP_INFO (Linux)."""
    if sys.platform != "linux":
        return _state_by_peeking(connection)
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    if state == _TCP_CLOSE:
        return State.BROKEN
    return State.INPUT_ENDED if state == _TCP_CLOSE_WAIT else State.OPEN


def peer_end(connection: socket.socket) -> PeerEnd:
    """The state of the client's end, looked up in this machine's socket table (sock_diag).

    A closed socket has left its process, so its entry has no inode; a half-closed one that is still read has one. The
    entry stays for the rest of the TCP handshake or a minute.
    """
    if not hasattr(socket, "AF_NETLINK"):
        return PeerEnd.UNKNOWN
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as table:
            table.setblocking(False)  # the kernel has put the reply into the socket when `send` returns
            table.send(_lookup(connection))
            kind, body = _message(table.recv(4096))
    except OSError:
        return PeerEnd.UNKNOWN
    # A listener that is bound to every address matches every client that has its port.
    if kind != _SOCK_DIAG_BY_FAMILY or len(body) < _INODE_AT + 4 or body[_STATE_AT] == _TCP_LISTEN:
        return PeerEnd.UNKNOWN
    (inode,) = struct.unpack_from("=I", body, _INODE_AT)
    return PeerEnd.HELD if inode else PeerEnd.CLOSED


def unacknowledged(connection: socket.socket) -> int:
    """Bytes written that the client's machine has not acknowledged."""
    answer = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
    return int.from_bytes(answer, sys.byteorder)


def reset_on_close(connection: socket.socket) -> None:
    """Have the close of a connection reset it, so that its end cannot be taken for the end of the body."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _state_by_peeking(connection: socket.socket) -> State:
    below = _socket.socket(fileno=os.dup(connection.fileno()))  # a TLS socket cannot peek, the one below it can
    try:
        data = below.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError as error:
        return State.OPEN if error.errno in (errno.EAGAIN, errno.EWOULDBLOCK) else State.BROKEN
    finally:
        below.close()
    return State.OPEN if data else State.INPUT_ENDED


def _lookup(connection: socket.socket) -> bytes:
    """The request for one entry of the socket table: the connection seen from its client (inet_diag_req_v2)."""
    peer, own = connection.getpeername(), connection.getsockname()
    addresses = b"".join(
        socket.inet_pton(connection.family, name[0].partition("%")[0]).ljust(16, b"\0") for name in (peer, own)
    )
    wanted = struct.pack("=BBBBI", connection.family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
    body = wanted + struct.pack("!HH", peer[1], own[1]) + addresses + struct.pack("=I", 0) + _NO_COOKIE
    length = _NLMSG_HEADER.size + len(body)
    return _NLMSG_HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def _message(data: bytes) -> tuple[int, bytes]:
    _, kind, _, _, _ = _NLMSG_HEADER.unpack_from(data)
    return kind, data[_NLMSG_HEADER.size :]
