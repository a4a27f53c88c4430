"""A NATS server that follows a script: it tells what each client sent and says what the test wants it to say."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

_INFO = {"server_id": "scripted", "version": "2.11.0", "headers": True, "max_payload": 1048576, "auth_required": True}


class ScriptedServer:
    """Accepts clients one after the other; ``connects`` and ``subscribed`` grow as they speak."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._clients: list[socket.socket] = []
        self.connects: list[dict[str, Any]] = []
        self.subscribed: list[list[str]] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._listener.getsockname()[1]}"

    def say_to_last(self, line: str) -> None:
        """Send one protocol line to the newest client and hang up."""
        self._clients[-1].sendall(line.encode() + b"\r\n")
        self._clients[-1].shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for client in self._clients:
            client.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._clients.append(client)
            self.subscribed.append([])
            threading.Thread(target=self._serve, args=(client, self.subscribed[-1]), daemon=True).start()

    def _serve(self, client: socket.socket, subscribed: list[str]) -> None:
        try:
            client.sendall(f"INFO {json.dumps(_INFO)}\r\n".encode())
            with client.makefile("rb") as lines:
                for line in lines:
                    self._hear(client, line.decode().strip(), subscribed)
        except OSError:
            return

    def _hear(self, client: socket.socket, line: str, subscribed: list[str]) -> None:
        word, _, rest = line.partition(" ")
        if word == "CONNECT":
            self.connects.append(json.loads(rest))
        elif word == "SUB":
            subscribed.append(rest.split()[0])
        elif word == "PING":
            client.sendall(b"PONG\r\n")
