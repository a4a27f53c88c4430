"""A relay between a worker and its frontend that lets files through slowly or not at all, and everything else at once."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

#: How often a throttled connection passes something on, so that it is never silent for long.
TURN_S = 0.1
_FILE = re.compile(rb"GET [^ ]*/files/")


class FileRelay:
    """Listens on loopback from the beginning; `close` ends every connection."""

    def __init__(self, target: str) -> None:
        address = urlsplit(target)
        self._target = (address.hostname or "", address.port or 80)
        #: Bytes of files a second; None = as fast as they come.
        self.bytes_per_s: int | None = None
        #: While clear, not one byte of a file passes; the connections stay open.
        self.flows = threading.Event()
        self.flows.set()
        self._closing = threading.Event()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def close(self) -> None:
        self._closing.set()
        self.flows.set()
        for one in [self._listener, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            server = socket.create_connection(self._target)
            self._open += [client, server]
            asked = client.recv(65536)
            server.sendall(asked)
            self._start(self._pass_on, client, server, False)
            self._pass_on(server, client, _FILE.match(asked) is not None)

    def _pass_on(self, source: socket.socket, target: socket.socket, is_file: bool) -> None:
        with suppress(OSError):
            while data := source.recv(self._at_once(is_file)):
                if is_file and self.bytes_per_s:
                    self._closing.wait(len(data) / self.bytes_per_s)
                if is_file:
                    self.flows.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _at_once(self, is_file: bool) -> int:
        return max(1, int(self.bytes_per_s * TURN_S)) if is_file and self.bytes_per_s else 65536
