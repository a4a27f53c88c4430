"""Bodies of 15 MB, of every shape that is dear: how long does one hold the event loop of the front?

A front of its own, on the servers, the routes and the model process of the run, has one more greenlet, which wants its
turn each millisecond. The figure is the longest time it waited, of CPU time: that is how long the body held the loop,
also on a machine that has other work. The time of the clock is beside it.

`python -m tests.bench.bodies` sends one body: a JSON line with its head on standard input, then its bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil

from tests.acceptance.cluster import API_KEY, free_port, wait_for
from tests.bench.body_shapes import Shape, shapes
from tests.bench.report import Aim, Row
from tests.bench.stand import FRONT_CORE, OTHER_CORE, Stand, pin
from tests.embedded_servers import ROOT, clean_environment

MODEL = "bench-bodies"
AIM_MS = 300
_GAPS = struct.Struct("dd")
_READY, _GO = b"ready\n", b"go\n"
_SOCKET_BYTES = 256 * 1024


def measure(stand: Stand) -> list[Row]:
    """The longest gap beside each body."""
    stand.loaded(MODEL, "tokens:1")
    rows, waits = [], []
    with stand.pinned(), watched_front(stand) as front:
        for shape in _chosen(stand):
            data = shape.make(MODEL)
            with Sender(front.port, shape, data) as sender:
                front.reset()
                status = sender.send()
            held_ms, waited_ms = front.gaps_ms()
            what = f"{shape.name}, {len(data) / 1e6:.1f} MB: {status}"
            rows.append(Row(measure="bodies", what=what, value=held_ms, unit="ms", aim=Aim(at_most=AIM_MS)))
            waits.append(waited_ms)
    longest = max(row.value for row in rows)
    return [
        *rows,
        Row(measure="bodies", what="the longest of them", value=longest, unit="ms", aim=Aim(at_most=AIM_MS)),
        Row(measure="bodies", what="the longest by the clock", value=max(waits), unit="ms"),
    ]


def _chosen(stand: Stand) -> Iterator[Shape]:
    """All of them; every third in a quick run."""
    step = 1 if stand.length.rounds > 2 else 3
    return (shape for place, shape in enumerate(shapes()) if place % step == 0)


@dataclass(frozen=True, slots=True)
class Front:
    """A front whose loop is watched."""

    port: int
    gaps: Path

    def reset(self) -> None:
        """Begin a new measurement."""
        with self.gaps.open("r+b") as file:
            file.write(bytes(_GAPS.size))

    def gaps_ms(self) -> tuple[float, float]:
        """The longest gap: of CPU time, and by the clock."""
        held, waited = _GAPS.unpack(self.gaps.read_bytes())
        return held, waited


@contextlib.contextmanager
def watched_front(stand: Stand) -> Iterator[Front]:
    """gunicorn with one worker beside the front of the run."""
    front = Front(free_port(), stand.cluster.folder / "gaps")
    front.gaps.write_bytes(bytes(_GAPS.size))
    environment = {
        **stand.servers(),
        "LOCALAI_STATE_DIR": str(stand.state),
        "LOCALAI_API_KEY": API_KEY,
        "LOCALAI_PORT": str(front.port),
        "LOCALAI_WEB_WORKERS": "1",
        "LOCALAI_ENABLE_FAULT_BACKEND": "true",
        "BENCH_GAPS": str(front.gaps),
    }
    configuration = str(ROOT / "tests" / "bench" / "watched_front.py")
    with (stand.cluster.folder / "watched-front.log").open("wb") as log:
        popen = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", configuration, "web.app:create_app()"],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env=clean_environment(environment),
        )
    try:
        wait_for("the watched front", lambda: _answers(front.port))
        for process in psutil.Process(popen.pid).children(recursive=True):
            pin(process, FRONT_CORE)
        yield front
    finally:
        popen.terminate()
        popen.wait(60)


def _answers(port: int) -> bool:
    """Whether the front answers, and knows where the model is."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    try:
        response = httpx2.post(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json=body,
            headers={"Authorization": f"Bearer {API_KEY}"},
            timeout=60,
        )
    except httpx2.TransportError:
        return False
    return response.status_code == 200


class Sender:
    """A process that sends one body, on the core of clients."""

    def __init__(self, port: int, shape: Shape, data: bytes) -> None:
        command = [sys.executable, "-m", "tests.bench.bodies"]
        if (os.cpu_count() or 1) >= 2:
            command = ["taskset", "-c", str(OTHER_CORE), *command]
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=clean_environment()
        )
        assert self._popen.stdin is not None and self._popen.stdout is not None
        head = {"port": port, "path": shape.path, "chunk": shape.chunk, "length": len(data)}
        self._popen.stdin.write(json.dumps(head).encode() + b"\n" + data)
        self._popen.stdin.flush()
        if self._popen.stdout.readline() != _READY:
            raise RuntimeError("the sender of a body did not start")

    def __enter__(self) -> Sender:
        return self

    def send(self) -> str:
        """The status of the answer."""
        said, _ = self._popen.communicate(_GO)
        return said.decode()

    def __exit__(self, *_: object) -> None:
        if self._popen.poll() is None:
            self._popen.kill()
            self._popen.wait()


def _send_one() -> None:
    head = json.loads(sys.stdin.buffer.readline())
    data, chunk = sys.stdin.buffer.read(head["length"]), head["chunk"]
    if chunk:
        parts = (data[start : start + chunk] for start in range(0, len(data), chunk))
        wire = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        length = "Transfer-Encoding: chunked"
    else:
        wire, length = data, f"Content-Length: {len(data)}"
    top = f"POST {head['path']} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {API_KEY}\r\n{length}\r\n\r\n"
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    sys.stdin.buffer.readline()
    with closing(socket.create_connection(("127.0.0.1", head["port"]), timeout=300)) as connection:
        sender = threading.Thread(target=_send_all, args=(connection, top.encode() + wire))
        sender.start()
        status = _answer(connection)
        sys.stdout.write(status)
        sys.stdout.flush()
        sender.join()


def _send_all(connection: socket.socket, wire: bytes) -> None:
    try:
        connection.sendall(wire)
    except OSError:
        return  # refused before its end


def _answer(connection: socket.socket) -> str:
    """The status of the next answer, read to its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(_SOCKET_BYTES)
        if not piece:
            return "no answer"
        data += piece
    top, _, rest = data.partition(b"\r\n\r\n")
    lines = top.lower().split(b"\r\n")
    left = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), 0) - len(rest)
    while left > 0 and (piece := connection.recv(_SOCKET_BYTES)):
        left -= len(piece)
    return top.split()[1].decode()


if __name__ == "__main__":
    _send_one()
