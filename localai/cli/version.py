"""Which version is installed here?"""

from __future__ import annotations

import json
import platform

import click

import localai
from localai.cli.output import echo, output_option


@click.command()
@output_option
def command(output: str) -> None:
    """Print the version of this installation."""
    if output == "json":
        echo(json.dumps({"version": localai.__version__, "python": platform.python_version()}))
    else:
        echo(f"localai {localai.__version__}")
