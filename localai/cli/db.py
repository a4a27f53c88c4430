"""`localai db`: how is the schema brought up to date by hand?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from localai.cli import migrations
from localai.cli.options import load
from localai.cli.output import echo
from localai.embedded import env_file
from localai.embedded.state_folder import StateFolder
from localai.errors import StartRefused
from localai.settings import Settings, default_state_dir


@click.group()
def command() -> None:
    """Care for the database."""


@command.command()
@click.option("--database-url", metavar="URL", help="PostgreSQL URL [$LOCALAI_AUTH_DATABASE_URL, then <state-dir>/env]")
@click.option("--state-dir", metavar="PATH", help="Folder of the env file [$LOCALAI_STATE_DIR]")
def upgrade(**flags: Any) -> None:
    """Run the migrations that are missing.

    `up` and `run` do this at every start. This command is for a database whose migrations are run apart, for instance
    before a release is rolled out.
    """
    settings = _with_url(load(flags))
    migrations.upgrade(settings.database_url)
    echo("The schema is up to date.")


def _with_url(settings: Settings) -> Settings:
    if settings.database_url:
        return settings
    folder = StateFolder(settings.state_dir or default_state_dir())
    try:
        url = env_file.read(folder.env).get("LOCALAI_AUTH_DATABASE_URL", "")
    except OSError as error:
        raise StartRefused(f"{folder.env} cannot be read: {error.strerror}") from None
    if not url:
        raise StartRefused(f"no database is known: set LOCALAI_AUTH_DATABASE_URL (there is none in {folder.env})")
    return replace(settings, database_url=url)
