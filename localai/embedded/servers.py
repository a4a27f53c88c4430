"""Which servers does `localai up` start, and what do they need before?"""

from __future__ import annotations

import time
from collections.abc import Callable

from localai.embedded import binaries, credentials, nats, postgres, tcp_ports, valkey
from localai.embedded.account import Account
from localai.embedded.children import Child
from localai.embedded.credentials import SERVER_PORTS, Credentials
from localai.embedded.state_folder import StateFolder
from localai.errors import StartRefused

#: Servers whose supervisor was killed need this long at most to end. Who knows their ports keeps them meanwhile.
_LEFTOVER_LIMIT_S = 3.0
_LOOK_AGAIN_S = 0.05


def settle_credentials(folder: StateFolder) -> Credentials:
    """Ports and secrets for this start. The lock of the folder is held. Raises StartRefused."""
    if not folder.secrets.exists() and (folder.server(postgres.NAME) / "PG_VERSION").exists():
        raise StartRefused(
            f"{folder.secrets} is missing, and the database in {folder.server(postgres.NAME)} opens only with the "
            "password in it: restore the file, or move the database away and a new one is made"
        )
    kept = credentials.load_or_draw(folder.secrets)
    _wait_for_ports(kept)
    settled = credentials.with_free_ports(kept)
    if settled != kept:
        credentials.save(folder.secrets, settled)
    return settled


def _wait_for_ports(kept: Credentials) -> None:
    wanted = [getattr(kept, name) for name in SERVER_PORTS] + [kept.worker_port - 1]
    end = time.monotonic() + _LEFTOVER_LIMIT_S
    while not all(tcp_ports.is_free(port) for port in wanted) and time.monotonic() < end:
        time.sleep(_LOOK_AGAIN_S)


def prepare(
    folder: StateFolder, kept: Credentials, account: Account | None, say: Callable[[str], None]
) -> tuple[Child, ...]:
    """The three servers in the order of their start. Makes the database the first time. Raises StartRefused."""
    programs = [
        binaries.reachable(find(), account, folder.binaries, say)
        for find in (binaries.postgres, binaries.nats, binaries.valkey)
    ]
    return (
        postgres.prepare(folder, programs[0], kept, account, say),
        nats.prepare(folder, programs[1], kept, account),
        valkey.prepare(folder, programs[2], kept, account),
    )
