"""Which options does a command get from the settings table, and how does its help show them?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click

from localai.errors import BadSetting
from localai.settings import Settings, Spec, default_state_dir

#: What a newcomer may want to set; the rest of the table follows below in the help.
MAIN: Mapping[str, tuple[str, ...]] = {
    "up": ("state_dir", "address", "port", "node_name", "models_path", "api_key", "log_level"),
    "run": (
        "state_dir",
        "address",
        "port",
        "database_url",
        "broker_url",
        "nats_url",
        "registration_token",
        "models_path",
        "auto_approve_nodes",
        "log_level",
    ),
    "worker": (
        "register_to",
        "registration_token",
        "broker_url",
        "nats_url",
        "node_name",
        "serve_addr",
        "advertise_addr",
        "data_path",
        "log_level",
    ),
    "client": ("url", "api_key", "state_dir"),
}
#: Shorter names beside the one made from the variable.
SHORT_FLAGS: Mapping[str, str] = {"address": "--address", "database_url": "--database-url"}

_METAVARS = {
    "duration": "DURATION",
    "integer": "N",
    "number": "N",
    "path": "PATH",
    "list": "A,B,...",
    "text": "TEXT",
}


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases only
    """The text of one setting, parsed as the settings table says."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.name = spec.kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self.spec.parse(value)
        except BadSetting as error:
            shown = "the value" if self.spec.secret else repr(value)
            self.fail(f"{shown} cannot be used; accepted: {error.accepted}", param, ctx)


class SettingOption(click.Option):
    """An option that knows the section of the help it stands in."""

    def __init__(self, *names: Any, section: str, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help shows the settings a newcomer needs first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "More settings": [], "Time limits": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                section = parameter.section if isinstance(parameter, SettingOption) else "Options"
                sections[section].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def settings_of(command: str) -> list[tuple[str, Spec]]:
    """The settings that a command takes as options, those of a newcomer first."""
    taken = {name: spec for name, spec in Settings.specs() if command in spec.commands}
    first = [name for name in MAIN[command] if name in taken]
    return [(name, taken[name]) for name in (*first, *(name for name in taken if name not in first))]


def with_settings(command: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command function ``settings`` as its first argument: flags over variables over defaults.

    Paths are absolute and ``state_dir`` is set, so that they mean the same to a child with another working folder.
    """
    table = settings_of(command)
    names = [name for name, _ in table] + [f"{name}_file" for name, spec in table if spec.secret]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(**values: Any) -> Any:
            settings = load({name: values.pop(name) for name in names})
            if settings.no_color:
                click.get_current_context().color = False
            return function(settings, **values)

        decorated: Callable[..., Any] = run
        for name, spec in reversed(table):
            if spec.secret:
                decorated = _file_option(command, name, spec)(decorated)
            decorated = _option(command, name, spec)(decorated)
        return decorated

    return decorate


def load(flags: Mapping[str, Any]) -> Settings:
    """The settings of this process. Raises BadSetting."""
    settings = Settings.load(flags=flags)
    found = {name: getattr(settings, name) for name, spec in Settings.specs() if spec.kind == "path"}
    paths = {name: path.absolute() for name, path in found.items() if path is not None}
    return replace(settings, **{"state_dir": default_state_dir(), **paths})


def _option(command: str, name: str, spec: Spec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    switch = spec.kind == "switch"
    names = [flag for flag in (SHORT_FLAGS.get(name), spec.flag, *spec.other_flags) if flag is not None]
    if switch:
        names = [f"{flag}/--no-{flag.removeprefix('--')}" for flag in names]
    return click.option(
        *names,
        name,
        cls=SettingOption,
        section=_section(command, name, spec),
        type=None if switch else SettingType(spec),
        default=None,
        metavar=None if switch else _metavar(spec),
        help=_help(spec),
    )


def _file_option(command: str, name: str, spec: Spec) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option that names the file of a secret."""
    short = SHORT_FLAGS.get(name)
    return click.option(
        *([f"{short}-file"] if short else []),
        spec.file_flag,
        f"{name}_file",
        cls=SettingOption,
        section="More settings",
        default=None,
        metavar="PATH",
        help=f"File that holds the value of {spec.flag}. [${spec.file_variable}]",
    )


def _section(command: str, name: str, spec: Spec) -> str:
    if name in MAIN[command]:
        return "Options"
    return "Time limits" if spec.kind == "duration" else "More settings"


def _metavar(spec: Spec) -> str:
    return "|".join(spec.choices) if spec.choices else _METAVARS[spec.kind]


def _help(spec: Spec) -> str:
    default = f"default {spec.default}, " if spec.default and spec.kind != "switch" else ""
    return f"{spec.meaning} [{default}${spec.variable}]"
