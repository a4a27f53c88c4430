"""The embedded NATS server: its config, with one user a role, and its process."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from localai.embedded import probes
from localai.embedded.account import Account, give
from localai.embedded.children import Child
from localai.embedded.credentials import FRONTEND, WORKER, Credentials
from localai.embedded.private_files import replace_private
from localai.embedded.state_folder import StateFolder, server_folder

NAME = "nats"
#: What a frontend does on the bus: events, and questions to nodes. It cannot answer for a node.
FRONTEND_PERMISSIONS = (
    'publish: ["jobs.>", "routing.changed", "nodes.>"], '
    'subscribe: ["jobs.>", "routing.changed", "nodes.changed", "_INBOX.>"]'
)
#: What a worker does on the bus: it answers questions to nodes, each once. The longest stop must fit into ``expires``.
WORKER_PERMISSIONS = 'publish: {deny: ">"}, subscribe: ["nodes.*.>"], allow_responses: {max: 1, expires: "15m"}'


def prepare(folder: StateFolder, program: Path, credentials: Credentials, account: Account | None) -> Child:
    """The server as a child; its config is written anew at each start. Raises StartRefused."""
    data = server_folder(folder.server(NAME), account)
    config = data / "nats.conf"
    replace_private(config, config_text(credentials))
    give(config, account)
    return Child(
        name=NAME,
        argv=(str(program), "-c", str(config)),
        env={"PATH": os.environ.get("PATH", os.defpath)},
        cwd=data,
        log=folder.log(NAME),
        account=account,
        ready=partial(probes.nats_answers, credentials.nats_port, FRONTEND, credentials.nats_frontend_password),
    )


def config_text(credentials: Credentials) -> str:
    """The config file: loopback, a user for each role, nothing durable. A command line would show the secrets."""
    users = (
        _user(FRONTEND, credentials.nats_frontend_password, FRONTEND_PERMISSIONS),
        _user(WORKER, credentials.nats_token, WORKER_PERMISSIONS),
    )
    lines = "".join(f"    {user}\n" for user in users)
    return f'host: "127.0.0.1"\nport: {credentials.nats_port}\nauthorization {{\n  users: [\n{lines}  ]\n}}\n'


def _user(name: str, password: str, permissions: str) -> str:
    return f'{{user: "{name}", password: "{password}", permissions: {{{permissions}}}}}'
