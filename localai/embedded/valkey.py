"""The embedded Valkey server: its config, with one user a role, and its process."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from pathlib import Path

from localai.embedded import probes
from localai.embedded.account import Account, give
from localai.embedded.children import Child
from localai.embedded.credentials import FRONTEND, OWNER, WORKER, Credentials
from localai.embedded.private_files import replace_private
from localai.embedded.state_folder import StateFolder, server_folder

NAME = "valkey"
#: Name of the folder with a queue that could not be read.
ASIDE = "valkey.set-aside"
CONFIG = "valkey.conf"
#: Commands of a connection, and those that load and run the script of the queue library.
_CONNECTION = "auth hello ping select client|setname client|setinfo evalsha script|load"
#: Commands of that script. A script runs with the rights of the user that calls it. ``keys`` lists names only.
_SCRIPT = "del hdel hexists hget hlen hmget hset keys lpop rpush sadd scard smembers srem zadd zrangebyscore zrem"
#: Keys of the queue library. A worker has those that all workers share, and queues of nodes.
_FRONTEND_KEYS = "~dramatiq ~dramatiq:*"
_WORKER_KEYS = "~dramatiq ~dramatiq:__heartbeats__ ~dramatiq:__acks__.* ~dramatiq:node.*"


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
        ready=partial(probes.valkey_answers, credentials.valkey_port, FRONTEND, credentials.valkey_frontend_password),
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
    """The config file: loopback, a user for each role, every write in the append-only file, nothing ever evicted."""
    lines = {
        "bind": "127.0.0.1",
        "port": str(credentials.valkey_port),
        "dir": "./",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": '""',
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "logfile": '""',
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items()) + _users(credentials)


def _users(credentials: Credentials) -> str:
    """One line for each user. The file holds hashes, so that a copy of it opens nothing."""
    frontend, worker = hashed(credentials.valkey_frontend_password), hashed(credentials.valkey_password)
    default = f"on {worker} {worker_rights()}" if credentials.valkey_default_user else "off"
    users = {
        "default": default,
        OWNER: f"on {hashed(credentials.valkey_owner_password)} ~* &* +@all",
        FRONTEND: f"on {frontend} {frontend_rights()}",
        WORKER: f"on {worker} {worker_rights()}",
    }
    return "".join(f"user {name} reset {rights}\n" for name, rights in users.items())


def frontend_rights() -> str:
    """Rights of web and control processes: the queues of the library, and how long they are."""
    return f"{_FRONTEND_KEYS} {_allowed(f'{_CONNECTION} {_SCRIPT} llen')}"


def worker_rights() -> str:
    """Rights of agents: queues of nodes."""
    return f"{_WORKER_KEYS} {_allowed(f'{_CONNECTION} {_SCRIPT}')}"


def _allowed(commands: str) -> str:
    return " ".join(f"+{command}" for command in commands.split())


def hashed(password: str) -> str:
    """A password as an ACL holds it."""
    return f"#{hashlib.sha256(password.encode()).hexdigest()}"
