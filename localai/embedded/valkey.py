"""How is the embedded Valkey server started?"""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

from localai.embedded import probes
from localai.embedded.account import Account, give
from localai.embedded.children import Child
from localai.embedded.credentials import Credentials
from localai.embedded.private_files import replace_private
from localai.embedded.state_folder import StateFolder, server_folder

NAME = "valkey"
#: Name of the folder with a queue that could not be read.
ASIDE = "valkey.set-aside"
CONFIG = "valkey.conf"


def prepare(folder: StateFolder, program: Path, credentials: Credentials, account: Account | None) -> Child:
    """The server as a child; its config is written anew at each start. Raises StartRefused."""
    data = _lay_out(folder, credentials, account)
    return Child(
        name=NAME,
        argv=(str(program), str(data / CONFIG)),
        env={"PATH": os.environ.get("PATH", os.defpath)},
        # The data is written to the working folder: no path stands in the config, so none needs quoting.
        cwd=data,
        log=folder.log(NAME),
        account=account,
        ready=partial(probes.valkey_answers, credentials.valkey_port, credentials.valkey_password),
        before_start=partial(_lay_out_if_missing, folder, credentials, account),
        set_aside=partial(_set_aside, folder, credentials, account),
    )


def _lay_out(folder: StateFolder, credentials: Credentials, account: Account | None) -> Path:
    """The data folder with its config. Raises StartRefused, OSError."""
    data = server_folder(folder.server(NAME), account)
    config = data / CONFIG
    replace_private(config, config_text(credentials))
    give(config, account)
    return data


def _lay_out_if_missing(folder: StateFolder, credentials: Credentials, account: Account | None) -> None:
    """A set-aside that ended halfway, as on a full disk, left no folder or no config. Raises StartRefused, OSError."""
    if not (folder.server(NAME) / CONFIG).exists():
        _lay_out(folder, credentials, account)


def _set_aside(folder: StateFolder, credentials: Credentials, account: Account | None) -> Path:
    """Move the queue away and begin an empty one: it holds wake-ups only, and the rows of the jobs are asked anyway.

    One copy is kept: the one before is removed. Raises StartRefused, OSError.
    """
    place = folder.server(ASIDE)
    shutil.rmtree(place, ignore_errors=True)
    folder.server(NAME).rename(place)
    _lay_out(folder, credentials, account)
    return place


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
