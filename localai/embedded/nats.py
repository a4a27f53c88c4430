"""How is the embedded NATS server started?"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from localai.embedded import probes
from localai.embedded.account import Account, give
from localai.embedded.children import Child
from localai.embedded.credentials import Credentials
from localai.embedded.private_files import replace_private
from localai.embedded.state_folder import StateFolder, server_folder

NAME = "nats"


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
        ready=partial(probes.nats_answers, credentials.nats_port, credentials.nats_token),
    )


def config_text(credentials: Credentials) -> str:
    """The config file: loopback, one token, nothing durable. It holds the secret because a command line is public."""
    return f'host: "127.0.0.1"\nport: {credentials.nats_port}\nauthorization {{ token: "{credentials.nats_token}" }}\n'
