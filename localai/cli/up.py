"""`localai up`: how does everything start on one machine, in one state folder?"""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from localai.cli import certificates, keys, migrations, processes
from localai.cli.options import SectionedCommand, with_settings
from localai.cli.output import echo
from localai.cli.say import say
from localai.embedded import env_file, servers, tcp_ports
from localai.embedded.account import Account, server_account
from localai.embedded.credentials import Credentials
from localai.embedded.state_folder import StateFolder, admin_key, held, prepare
from localai.embedded.supervisor import StopAsked, Supervisor
from localai.errors import StartRefused
from localai.ids import new_id
from localai.nodes import secret_file
from localai.nodes.credentials import hash_of
from localai.nodes.names import default_name
from localai.settings import Settings, default_state_dir

#: The model that a fresh state folder knows.
DEFAULT_MODEL = "smollm2-135m"


@click.command(cls=SectionedCommand)
@click.option("--servers-only", is_flag=True, help="Start only PostgreSQL, NATS and Valkey, for `run` and `worker`.")
@with_settings("up")
def command(settings: Settings, servers_only: bool) -> None:
    """Start everything on this machine: servers, frontend and agent.

    The first start makes a state folder with a database, an admin key and the config of a small model; later starts
    find everything there again. It runs until Ctrl-C, may be killed at any moment, and starts again what ends by
    itself.

    PostgreSQL, NATS and Valkey listen on 127.0.0.1 only. For workers on other machines use servers of your own:
    `localai run` there, `localai worker` on each machine.
    """
    keys.check(settings)
    settings = certificates.for_this_machine(settings)
    account = server_account(settings.server_user, say)
    state_dir = settings.state_dir or default_state_dir()
    if not state_dir.exists():  # a refused first start leaves no folder behind
        settings = _with_port(settings, servers_only)
    folder = prepare(state_dir, account)
    with held(folder):
        settings = _with_port(settings, servers_only)
        with Supervisor(say) as supervisor:
            with suppress(StopAsked):
                _run(supervisor, settings, folder, account, servers_only=servers_only)
            say("stopping")


def _run(
    supervisor: Supervisor, settings: Settings, folder: StateFolder, account: Account | None, *, servers_only: bool
) -> NoReturn:
    folder.env.unlink(missing_ok=True)  # the last start's, until this one's servers answer
    kept = servers.settle_credentials(folder)
    settings = _filled_in(settings, folder, kept)
    imported = None if servers_only else migrations.import_early()
    supervisor.start(servers.prepare(folder, kept, account, say))
    env_file.write(folder.env, _environment(settings, servers_only))
    if imported is None:
        echo(f"The servers are ready; their URLs are in {folder.env}")
    else:
        supervisor.call(imported)
        _start_ours(supervisor, settings, folder, kept)
        echo(_greeting(settings, folder))
    supervisor.watch()


def _with_port(settings: Settings, servers_only: bool) -> Settings:
    """Refuse a port in use before anything is started; 0 means any free one."""
    if servers_only:
        return settings
    if settings.port == 0:
        return replace(settings, port=tcp_ports.draw())
    tcp_ports.require_free(settings.address, settings.port, "--port")
    return settings


def _filled_in(settings: Settings, folder: StateFolder, kept: Credentials) -> Settings:
    if settings.database_url or settings.nats_url or settings.broker_url:
        say("`up` uses servers of its own: the URLs in the environment are for `localai run` and are not used")
    node = settings.node_name or default_name(socket.gethostname(), folder.worker / "incarnation")
    return replace(
        settings,
        database_url=kept.database_url,
        nats_url=kept.nats_url,
        broker_url=kept.broker_url,
        worker_nats_url=kept.worker_nats_url,
        worker_broker_url=kept.worker_broker_url,
        registration_token=settings.registration_token or kept.registration_token,
        api_key=settings.api_key or (admin_key(folder, ""),),
        node_name=node,
        instance_id=settings.instance_id or new_id(),
        approve_node=node,
    )


def _environment(settings: Settings, servers_only: bool) -> dict[str, str]:
    values = {
        "LOCALAI_AUTH_DATABASE_URL": settings.database_url,
        "LOCALAI_NATS_URL": settings.nats_url,
        "LOCALAI_BROKER_URL": settings.broker_url,
        "LOCALAI_WORKER_NATS_URL": settings.worker_nats_url,
        "LOCALAI_WORKER_BROKER_URL": settings.worker_broker_url,
        "LOCALAI_REGISTRATION_TOKEN": settings.registration_token,
    }
    if servers_only:
        return values
    values["LOCALAI_URL"] = processes.local_url(settings)
    return values | certificates.for_clients(settings)


def _start_ours(supervisor: Supervisor, settings: Settings, folder: StateFolder, kept: Credentials) -> None:
    from localai import shared_counts  # late: a slow import that neither `--help` nor the servers need

    admin_key(folder, settings.api_key[0])
    settings = replace(settings, approve_node_hash=_own_worker_hash(folder))
    supervisor.call(lambda: migrations.upgrade(settings.database_url))
    _write_default_models(settings, folder)
    shared_counts.wipe(shared_counts.folder_of(settings))
    supervisor.start(
        [
            processes.web(settings, folder, to_files=True),
            processes.control(settings, folder, to_files=True),
            processes.agent(settings, folder, kept.worker_port),
        ]
    )


def _own_worker_hash(folder: StateFolder) -> str:
    """The hash of the secret of this machine's worker: another one with its name is not approved for it."""
    try:
        folder.worker.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StartRefused(f"the folder {folder.worker} cannot be used: {error.strerror}") from None
    return hash_of(secret_file.read_or_make(folder.worker / secret_file.FILE_NAME))


def _write_default_models(settings: Settings, folder: StateFolder) -> None:
    """Configs that are new in this release; one that a person removed is not written again.

    Best effort: the folder may be read-only, or away for a while. It is made at the first start only, never in place of
    one that is away.
    """
    from localai.galleries.index import write_new_entries

    models = settings.models_path or folder.models
    try:
        if not (folder.known_models.exists() or folder.known_configs.exists()):
            models.mkdir(parents=True, exist_ok=True)
        write_new_entries(models, folder.known_models)
    except OSError as error:
        say(f"the sample configs are not written to the models folder {models}: {error.strerror}")


def _greeting(settings: Settings, folder: StateFolder) -> str:
    url, key = processes.local_url(settings), shlex.quote(str(folder.api_key))
    models = settings.models_path or folder.models
    lines = [
        f"localai is ready at {url}",
        "",
        f"  admin key   {folder.api_key}",
        f"  models      {models}",
        f"  logs        {folder.logs}",
        "",
        "Ask it something; the first question loads the model:",
        "",
        *_curl(_trust(settings) + url, key, with_model=(models / f"{DEFAULT_MODEL}.yaml").exists()),
        "",
        "Or in a browser: open the address and sign in with the key. Another worker on this machine:",
        "",
        f"  {_second_worker(folder)}",
        "",
        "Ctrl-C stops it.",
    ]
    return "\n".join(lines)


def _trust(settings: Settings) -> str:
    """The option with which curl trusts the certificate."""
    return f"--cacert {shlex.quote(str(settings.ca_file))} " if settings.tls_cert is not None else ""


def _second_worker(folder: StateFolder) -> str:
    """The command that joins one more worker beside this one; its port lies below those of outgoing connections."""
    command = shutil.which("localai") or str(Path(sys.executable).with_name("localai"))
    words = [command, "worker", "--state-dir", str(folder.path), "--node-name", "second"]
    words += ["--addr", "127.0.0.1:23051", "--data-path", str(folder.path / "worker-2")]
    return shlex.join(words)


def _curl(url: str, key: str, *, with_model: bool) -> list[str]:
    if not with_model:
        return [f'  curl {url}/v1/models -H "Authorization: Bearer $(cat {key})"']
    return [
        f'  curl {url}/v1/chat/completions -H "Authorization: Bearer $(cat {key})" '
        "-H 'Content-Type: application/json' "
        f'-d \'{{"model": "{DEFAULT_MODEL}", '
        '"messages": [{"role": "user", "content": "What is the capital of France?"}]}\''
    ]
