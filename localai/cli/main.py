"""Which commands does `localai` have, and how does it say that one failed?"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence

import click

from localai.cli.arguments import hide_secrets
from localai.cli.exit_codes import ExitCode
from localai.cli.say import say
from localai.errors import BadSetting, LocalAIError

#: Each command's module holds it as ``command`` and is imported when it is used.
COMMANDS: Mapping[str, str] = {
    "up": "localai.cli.up",
    "run": "localai.cli.run",
    "worker": "localai.cli.worker",
    "chat": "localai.cli.chat",
    "models": "localai.cli.models",
    "jobs": "localai.cli.jobs",
    "nodes": "localai.cli.nodes",
    "logs": "localai.cli.backend_logs",
    "db": "localai.cli.db",
    "version": "localai.cli.version",
}


class _Commands(click.Group):
    """A group whose commands are imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found = importlib.import_module(COMMANDS[cmd_name]).command
        assert isinstance(found, click.Command)
        return found


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Start here: `localai up`, then `localai chat smollm2-135m 'What is the capital of France?'`",
)
def localai() -> None:
    """An OpenAI-compatible server for one machine or many.

    `up` starts everything on this machine. `run` and `worker` start the parts on machines of their own. The other
    commands talk to a running server.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process: 0, or another code after one line on standard error."""
    hide_secrets()
    try:
        code = localai.main(args=arguments, prog_name="localai", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except LocalAIError as error:
        say(error.message)
        sys.exit(_code_of(error))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Who read our output has left. The interpreter's own flush at exit must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.FAILED)
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _code_of(error: LocalAIError) -> ExitCode:
    if isinstance(error, BadSetting):
        return ExitCode.USAGE
    code = getattr(error, "code", ExitCode.FAILED)
    return code if isinstance(code, ExitCode) else ExitCode.FAILED
