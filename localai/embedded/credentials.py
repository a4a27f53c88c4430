"""Ports and secrets of the embedded servers of one state folder.

Drawn once and kept in ``secrets.json``, so that URLs stay right over a restart. Each server knows its clients by role:
frontends, workers, and an owner whose secret no process of ours gets.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from localai.embedded import tcp_ports
from localai.embedded.private_files import create_private, replace_private
from localai.errors import StartRefused

#: Name of the application's role and of its database in PostgreSQL.
DATABASE = "localai"
#: Role that owns the PostgreSQL cluster: the only superuser. Used to make the database and its role.
DATABASE_OWNER = "localai_owner"
#: Users of NATS and Valkey.
FRONTEND, WORKER, OWNER = "frontend", "worker", "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Ports on loopback and secrets. Every text is URL-safe, so it needs no quoting in a URL or a config file."""

    postgres_port: int
    postgres_password: str
    postgres_owner_password: str
    nats_port: int
    #: Of workers. Earlier versions had one secret for all; a process that still holds it has the rights of a worker.
    nats_token: str
    nats_frontend_password: str
    valkey_port: int
    #: Of workers, as ``nats_token``.
    valkey_password: str
    valkey_frontend_password: str
    valkey_owner_password: str
    #: Whether workers may go on without a user name, as before there were any. Only in a folder of an earlier version.
    valkey_default_user: bool
    worker_port: int
    registration_token: str

    @property
    def database_url(self) -> str:
        return f"postgresql://{DATABASE}:{self.postgres_password}@127.0.0.1:{self.postgres_port}/{DATABASE}"

    @property
    def nats_url(self) -> str:
        return f"nats://{FRONTEND}:{self.nats_frontend_password}@127.0.0.1:{self.nats_port}"

    @property
    def worker_nats_url(self) -> str:
        return f"nats://{WORKER}:{self.nats_token}@127.0.0.1:{self.nats_port}"

    @property
    def broker_url(self) -> str:
        return f"redis://{FRONTEND}:{self.valkey_frontend_password}@127.0.0.1:{self.valkey_port}/0"

    @property
    def worker_broker_url(self) -> str:
        return f"redis://{WORKER}:{self.valkey_password}@127.0.0.1:{self.valkey_port}/0"


#: Secrets that a file of an earlier version does not have. They are drawn when it is read.
_NEWER = ("postgres_owner_password", "nats_frontend_password", "valkey_frontend_password", "valkey_owner_password")
#: The ports of servers. The agent's is drawn with them but judged by another rule.
SERVER_PORTS = ("postgres_port", "nats_port", "valkey_port")


def draw(free: Callable[[int], bool] = tcp_ports.is_free) -> Credentials:
    """New ports and secrets."""
    postgres = tcp_ports.draw((), free)
    nats = tcp_ports.draw((postgres,), free)
    valkey = tcp_ports.draw((postgres, nats), free)
    return Credentials(
        postgres_port=postgres,
        postgres_password=_secret(),
        nats_port=nats,
        nats_token=_secret(),
        valkey_port=valkey,
        valkey_password=_secret(),
        valkey_default_user=False,
        worker_port=_draw_worker_port((postgres, nats, valkey), free),
        registration_token=_secret(),
        **{name: _secret() for name in _NEWER},
    )


def _secret() -> str:
    return secrets.token_urlsafe(24)


def _draw_worker_port(taken: tuple[int, ...], free: Callable[[int], bool]) -> int:
    """The agent's base port: its HTTP server takes the port below, its first model process the base itself."""
    near = {port + step for port in taken for step in (0, 1)}
    return tcp_ports.draw(near, lambda port: free(port) and free(port - 1))


def load_or_draw(path: Path, free: Callable[[int], bool] = tcp_ports.is_free) -> Credentials:
    """What the file holds; where there is none, new ones, written before they are used. Raises StartRefused."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        drawn = draw(free)
        create_private(path, to_text(drawn))
        return drawn
    found = parse(text, path)
    if any(f'"{name}"' not in text for name in _NEWER):
        save(path, found)
    return found


def parse(text: str, path: Path) -> Credentials:
    """Credentials from the text of the file. Raises StartRefused naming the file."""
    try:
        found: dict[str, Any] = {**_of_earlier_version(), **json.loads(text)}
        values = {field.name: found[field.name] for field in fields(Credentials)}
    except (ValueError, KeyError, TypeError) as error:
        raise StartRefused(f"{path} cannot be used ({error!r}): restore it from a copy") from None
    for name, value in values.items():
        wanted = bool if name == "valkey_default_user" else int if name.endswith("_port") else str
        if not isinstance(value, wanted) or (value in ("", 0) and wanted is not bool):
            raise StartRefused(f"{path} cannot be used ({name} is {value!r}): restore it from a copy")
    return Credentials(**values)


def _of_earlier_version() -> dict[str, Any]:
    return {"valkey_default_user": True, **{name: _secret() for name in _NEWER}}


def to_text(credentials: Credentials) -> str:
    """The text of the file."""
    return json.dumps(asdict(credentials), indent=2) + "\n"


def with_free_ports(credentials: Credentials, free: Callable[[int], bool] = tcp_ports.is_free) -> Credentials:
    """The same secrets; a port that somebody else took meanwhile is drawn again."""
    kept = {name: getattr(credentials, name) for name in SERVER_PORTS}
    for name, port in kept.items():
        if not free(port):
            others = [*(p for n, p in kept.items() if n != name), credentials.worker_port, credentials.worker_port - 1]
            kept[name] = tcp_ports.draw(others, free)
    worker = credentials.worker_port
    # The base itself may still be held by a model process that the agent is about to end; the agent passes over it.
    if not free(worker - 1):
        worker = _draw_worker_port(tuple(kept.values()), free)
    return replace(credentials, worker_port=worker, **kept)


def save(path: Path, credentials: Credentials) -> None:
    """Write the file anew."""
    replace_private(path, to_text(credentials))
