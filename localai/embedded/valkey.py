"""How is the embedded Valkey server started?"""

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

NAME = "valkey"


def prepare(folder: StateFolder, program: Path, credentials: Credentials, account: Account | None) -> Child:
    """The server as a child; its config is written anew at each start. Raises StartRefused."""
    data = server_folder(folder.server(NAME), account)
    config = data / "valkey.conf"
    replace_private(config, config_text(credentials))
    give(config, account)
    return Child(
        name=NAME,
        argv=(str(program), str(config)),
        env={"PATH": os.environ.get("PATH", os.defpath)},
        # The data is written to the working folder: no path stands in the config, so none needs quoting.
        cwd=data,
        log=folder.log(NAME),
        account=account,
        ready=partial(probes.valkey_answers, credentials.valkey_port, credentials.valkey_password),
    )


def config_text(credentials: Credentials) -> str:
    """The config file: loopback, a password, every write in the append-only file, nothing ever evicted."""
    lines = {
        "bind": "127.0.0.1",
        "port": str(credentials.valkey_port),
        "requirepass": credentials.valkey_password,
        "dir": "./",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "logfile": '""',
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())
