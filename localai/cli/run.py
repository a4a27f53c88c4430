"""`localai run`: how does a frontend start on servers that others run?"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import click

from localai.cli import certificates, keys, migrations, processes
from localai.cli.options import SectionedCommand, with_settings
from localai.cli.output import echo
from localai.cli.say import say
from localai.embedded import tcp_ports
from localai.embedded.state_folder import StateFolder, admin_key, prepare
from localai.embedded.supervisor import StopAsked, Supervisor
from localai.errors import StartRefused
from localai.ids import new_id
from localai.nodes.host_rules import is_loopback
from localai.settings import KEY_LEAST_LENGTH, KEY_RECIPE, Settings, default_state_dir


@click.command(cls=SectionedCommand)
@click.option(
    "--log-to-stderr", is_flag=True, help="Processes log to standard error and not to <state-dir>/logs: for containers."
)
@with_settings("run")
def command(settings: Settings, log_to_stderr: bool) -> None:
    """Start a frontend: the API and the process that owns jobs.

    Needs a PostgreSQL database and a Redis or Valkey server, and wants a NATS server. Several frontends may share
    them; each machine that runs models joins with `localai worker`. To try this on one machine, `localai up
    --servers-only` starts the three servers and writes their URLs to <state-dir>/env.
    """
    require_servers(settings)
    keys.check(settings)
    certificates.check(settings)
    warn(settings)
    folder = prepare(settings.state_dir or default_state_dir())
    if settings.models_path is None:
        _make_models_folder(folder)
    if settings.port == 0:
        settings = replace(settings, port=tcp_ports.draw())
    tcp_ports.require_free(settings.address, settings.port, "--port")
    where = "LOCALAI_API_KEY" if settings.api_key else str(folder.api_key)
    # A given key is not written down: the folder may be shared with other frontends.
    settings = replace(
        settings,
        api_key=settings.api_key or (admin_key(folder, ""),),
        instance_id=settings.instance_id or new_id(),
    )
    with Supervisor(say) as supervisor:
        with suppress(StopAsked):
            _start(supervisor, settings, folder, to_files=not log_to_stderr)
            echo(f"The frontend is ready at {processes.local_url(settings)}; the admin key is in {where}")
            supervisor.watch()
        say("stopping")


def _make_models_folder(folder: StateFolder) -> None:
    """At the first start only, never in place of one that was there before. One that is away refuses no start."""
    if folder.known_configs.exists():
        return
    try:
        folder.models.mkdir(exist_ok=True)
    except OSError as error:
        say(f"the models folder {folder.models} cannot be made: {error.strerror}")


def require_servers(settings: Settings) -> None:
    """Refuse a start without the servers a frontend cannot do without, and without a token where one is demanded."""
    if not settings.database_url:
        raise StartRefused(
            "LOCALAI_AUTH_DATABASE_URL is not set: `run` needs a PostgreSQL database (`localai up` brings its own)"
        )
    if not settings.broker_url:
        raise StartRefused(
            "LOCALAI_BROKER_URL is not set: `run` needs a Redis or Valkey server (`localai up` brings its own)"
        )
    if refused := settings.open_access() or _open_registration(settings):
        raise StartRefused(refused)


def _open_registration(settings: Settings) -> str | None:
    """Why an address that other machines reach needs a registration token; None where it has one, or is told not to."""
    if settings.registration_token or settings.insecure or is_loopback(settings.address):
        return None
    return (
        f"LOCALAI_REGISTRATION_TOKEN is empty and --address {settings.address} is reached from other machines: any of "
        "them could register a worker; set the same token on frontends and workers (`openssl rand -hex 24` makes one), "
        "or listen on 127.0.0.1, or start with --insecure"
    )


def warn(settings: Settings) -> None:
    """Say aloud what a person should not leave so."""
    if not settings.registration_token:
        say(
            "WARNING: LOCALAI_REGISTRATION_TOKEN is empty: whoever reaches this port can register a worker and read "
            "model files; --registration-require-auth refuses such a start"
        )
    elif len(settings.registration_token) < KEY_LEAST_LENGTH:
        say(
            f"WARNING: LOCALAI_REGISTRATION_TOKEN has fewer than {KEY_LEAST_LENGTH} characters and may be guessed; "
            f"{KEY_RECIPE}"
        )
    if not settings.nats_url:
        say(
            "WARNING: LOCALAI_NATS_URL is empty: waiters and workers learn of changes by asking again, so a cancel "
            f"takes up to {settings.operation_report_interval_s:g} s longer"
        )


def _start(supervisor: Supervisor, settings: Settings, folder: StateFolder, *, to_files: bool) -> None:
    from localai import shared_counts  # late: a slow import that neither `--help` nor the servers need

    supervisor.call(lambda: migrations.upgrade_when_reachable(settings.database_url, say))
    shared_counts.wipe(shared_counts.folder_of(settings))
    supervisor.start(
        [
            processes.web(settings, folder, to_files=to_files),
            processes.control(settings, folder, to_files=to_files),
        ]
    )
