"""`localai worker`: how does the agent of a machine start?"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from localai.cli import processes
from localai.cli.options import SectionedCommand, with_settings
from localai.cli.say import say
from localai.embedded import env_file
from localai.embedded.state_folder import StateFolder
from localai.errors import StartRefused
from localai.nodes.listening import http_place
from localai.settings import Settings
from localai.tls import CA_VARIABLE


@click.command(cls=SectionedCommand)
@with_settings("worker")
def command(settings: Settings) -> None:
    """Join this machine to a frontend, to run models.

    The node waits until an administrator approves it (`localai nodes approve NAME`). Two workers on one machine need
    two --node-name, two ports in --addr and two --data-path.

    Beside a running `localai up`, `--state-dir` names its folder, and the URLs and the token are read from there.

    The servers that `localai up` starts listen on 127.0.0.1 only: a worker on another machine needs a frontend started
    with `localai run` and servers that both can reach.
    """
    settings = _with_own_urls(_beside_up(settings))
    _require(settings)
    _warn(settings)
    arguments = [sys.executable, "-m", "worker_agent.main"]
    # In place of this process, so that a signal to it reaches the agent.
    os.execve(sys.executable, arguments, processes.child_environment(settings))


def _beside_up(settings: Settings) -> Settings:
    """What is not set is read from the state folder of a `localai up` on this machine, where one is named."""
    if settings.state_dir is None:
        return settings
    try:
        known = env_file.read(StateFolder(settings.state_dir).env)
    except OSError:
        return settings
    url = known.get("LOCALAI_URL", "")
    return replace(
        settings,
        register_to=settings.register_to or ((url,) if url else ()),
        broker_url=settings.broker_url or _either(known, "LOCALAI_WORKER_BROKER_URL", "LOCALAI_BROKER_URL"),
        nats_url=settings.nats_url or _either(known, "LOCALAI_WORKER_NATS_URL", "LOCALAI_NATS_URL"),
        registration_token=settings.registration_token or known.get("LOCALAI_REGISTRATION_TOKEN", ""),
        ca_file=settings.ca_file or (Path(known[CA_VARIABLE]) if CA_VARIABLE in known else None),
    )


def _either(known: Mapping[str, str], first: str, second: str) -> str:
    return known.get(first) or known.get(second, "")


def _with_own_urls(settings: Settings) -> Settings:
    """The URLs with the rights of a worker where there are any, unless a flag names another one.

    The agent does not get those of frontends.
    """
    return replace(
        settings,
        nats_url=settings.nats_url if _by_flag("nats_url") else settings.worker_nats_url or settings.nats_url,
        broker_url=settings.broker_url if _by_flag("broker_url") else settings.worker_broker_url or settings.broker_url,
        worker_nats_url="",
        worker_broker_url="",
    )


def _by_flag(name: str) -> bool:
    """Whether the command line has the setting, or the file of it."""
    given = click.get_current_context().params
    return given.get(name) is not None or given.get(f"{name}_file") is not None


def _require(settings: Settings) -> None:
    if not settings.register_to:
        raise StartRefused("--register-to is missing: the URL of a frontend, such as http://frontend:8080")
    for url in settings.register_to:
        if not url.startswith(("http://", "https://")):
            raise StartRefused(f"--register-to: {url!r} is not a URL such as http://frontend:8080")
    if not settings.broker_url:
        raise StartRefused(
            "LOCALAI_BROKER_URL is not set: the worker needs the Redis or Valkey server that the frontends use; "
            "beside a running `localai up`, --state-dir with its folder says it"
        )
    if refused := settings.open_access():
        raise StartRefused(refused)


def _warn(settings: Settings) -> None:
    if not settings.registration_token:
        say(
            "WARNING: LOCALAI_REGISTRATION_TOKEN is empty: this worker joins only a frontend that has none either, and "
            f"its HTTP server on {_http_address(settings)} shows the logs of model processes to any client; "
            "--registration-require-auth refuses such a start"
        )
    if not settings.nats_url:
        say(
            "WARNING: LOCALAI_NATS_URL is empty: a cancel reaches this worker only as the answer to its next report, "
            f"up to {settings.operation_report_interval_s:g} s later"
        )


def _http_address(settings: Settings) -> str:
    host, port = http_place(settings)
    return f"{host or '0.0.0.0'}:{port}"
