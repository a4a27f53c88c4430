"""What does the page about the command line say? `docs/reference/cli.md`, made from the commands themselves."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence

import click

from localai.cli.exit_codes import ExitCode
from localai.cli.main import localai
from localai.cli.options import SettingOption
from localai.generated_pages import page_command

_HEAD = """\
# Command line

Made from the commands by `make fmt`; do not edit. `localai COMMAND --help` says the same in a terminal.

`chat`, `models`, `jobs`, `nodes` and `logs` talk to a server. They find it by `--url` (`LOCALAI_URL`), else by the
state folder of a server on this machine (`--state-dir`, `LOCALAI_STATE_DIR`), and show the key of `--api-key`
(`LOCALAI_API_KEY`), else the one of that folder.

Results go to standard output, progress and errors to standard error. A changing progress line is shown only where both
are terminals; elsewhere each new phase is one line. `NO_COLOR` takes the colours away.
Control characters of names, errors, logs and answers are shown as escapes such as `\\x1b`; `chat` and `logs` write them
exactly if standard output is no terminal.

`-o json` prints what the server answered, for scripts; its fields are those of the [HTTP API](http-api.md).

## Exit codes

| code | meaning |
|---|---|
"""


def page() -> str:
    """The text of the page."""
    codes = "".join(f"| {code.value} | {code.meaning} |\n" for code in ExitCode)
    return _HEAD + codes + "".join(_sections(localai, "localai", None))


def _sections(command: click.Command, path: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _sections(found, f"{path} {name}", context)
    else:
        yield _section(command, path, context)


def _section(command: click.Command, path: str, context: click.Context) -> str:
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = ["", f"## `{path}`", "", f"`{usage}`", "", _text(command)]
    found = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    options = [option for option in found if "--help" not in option.opts and not _of_every_client(option, found)]
    shown = [option for option in options if not isinstance(option, SettingOption) or option.section == "Options"]
    if shown:
        lines += ["", "| option | |", "|---|---|", *(_row(option, context) for option in shown)]
    if len(options) > len(shown):
        name = path.rpartition(" ")[2]
        lines += ["", f"Every other setting that [settings](settings.md) lists for `{name}` is an option too."]
    return "\n".join(lines) + "\n"


def _of_every_client(option: click.Option, options: Sequence[click.Option]) -> bool:
    """Said once at the top of the page, and not for every command."""
    client = any(isinstance(other, SettingOption) and other.name == "url" for other in options)
    return client and isinstance(option, SettingOption)


def _text(command: click.Command) -> str:
    return _plain(inspect.cleandoc(command.help or ""))


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    flags, text = (part.replace("|", "\\|") for part in record)
    return f"| `{flags}` | {_plain(' '.join(text.split()))} |"


def _plain(text: str) -> str:
    """Angle brackets outside of code would be taken for HTML."""
    parts = text.split("`")
    return "`".join(part if number % 2 else part.replace("<", "\\<") for number, part in enumerate(parts))


if __name__ == "__main__":
    sys.exit(page_command("localai.cli.reference", page))
