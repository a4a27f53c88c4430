"""Options come from the settings table, and flags win over variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from localai.cli.options import MAIN, SHORT_FLAGS, SectionedCommand, settings_of, with_settings
from localai.settings import Settings, default_state_dir

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for _, spec in Settings.specs():
        for name in spec.variables:
            monkeypatch.delenv(name, raising=False)


def settings_from(command: str, *arguments: str) -> Settings:
    found: list[Settings] = []

    @click.command(cls=SectionedCommand)
    @with_settings(command)
    def run(settings: Settings) -> None:
        found.append(settings)

    result = CliRunner().invoke(run, arguments)
    assert result.exit_code == 0, result.output
    return found[0]


def output_of(command: str, *arguments: str) -> Any:
    @click.command(cls=SectionedCommand)
    @with_settings(command)
    def run(settings: Settings) -> None:
        raise AssertionError("accepted")

    return CliRunner().invoke(run, arguments)


@pytest.mark.parametrize("command", ["up", "run", "worker", "client"])
def test_a_command_has_every_setting_the_table_gives_it_and_no_other(command: str) -> None:
    wanted = {name for name, spec in Settings.specs() if command in spec.commands}
    assert {name for name, _ in settings_of(command)} == wanted
    help_text = output_of(command, "--help").output
    for name, spec in settings_of(command):
        assert spec.flag in help_text, name
        assert f"${spec.variable}" in " ".join(help_text.split()), name


@pytest.mark.parametrize("command", list(MAIN))
def test_what_a_newcomer_needs_stands_first(command: str) -> None:
    assert tuple(name for name, _ in settings_of(command))[: len(MAIN[command])] == MAIN[command]


def test_time_limits_have_a_section_of_their_own() -> None:
    help_text = output_of("up", "--help").output
    assert help_text.index("--state-dir") < help_text.index("More settings:") < help_text.index("Time limits:")
    assert help_text.index("--job-lease-ttl") > help_text.index("Time limits:")


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_from("up").port == 8080
    monkeypatch.setenv("LOCALAI_PORT", "9001")
    assert settings_from("up").port == 9001
    assert settings_from("up", "--port", "9002").port == 9002


def test_a_flag_may_say_the_default_against_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALAI_AUTO_APPROVE_NODES", "true")
    assert settings_from("up").auto_approve_nodes
    assert not settings_from("up", "--no-auto-approve-nodes").auto_approve_nodes


def test_every_kind_of_setting_can_be_given(tmp_path: Path) -> None:
    settings = settings_from(
        "worker",
        "--register-to",
        "http://a, http://b",
        "--health-interval",
        "1m30s",
        "--threads",
        "3",
        "--log-level",
        "debug",
    )
    assert settings.register_to == ("http://a", "http://b")
    assert (settings.health_interval_s, settings.threads, settings.log_level) == (90.0, 3, "debug")


@pytest.mark.parametrize(
    ("short", "long"), [(flag, dict(Settings.specs())[name].flag) for name, flag in SHORT_FLAGS.items()]
)
def test_short_names_mean_the_same(short: str, long: str) -> None:
    assert settings_from("run", short, "x") == settings_from("run", long, "x")


@pytest.mark.parametrize(
    ("command", "flag", "value", "name"),
    [
        ("worker", "--addr", "1.2.3.4:5000", "serve_addr"),
        ("worker", "--serve-addr", "1.2.3.4:5000", "serve_addr"),
        ("worker", "--reachable-addr", "gpu-1:5000", "addr"),
        ("run", "--backend-install-timeout", "90s", "backend_install_timeout_s"),
        ("run", "--nats-backend-install-timeout", "90s", "backend_install_timeout_s"),
        ("run", "--model-load-timeout", "90s", "model_load_timeout_s"),
        ("run", "--nats-model-load-timeout", "90s", "model_load_timeout_s"),
        ("run", "--instance-id", "one", "instance_id"),
        ("up", "--instance-id", "one", "instance_id"),
    ],
)
def test_a_setting_has_the_flags_of_the_specification(command: str, flag: str, value: str, name: str) -> None:
    assert getattr(settings_from(command, flag, value), name) == dict(Settings.specs())[name].parse(value)


def test_switches_without_a_meaning_here_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALAI_AUTH", "true")
    settings_from("run", "--distributed")
    settings_from("up", "--distributed", "--auth")


def test_paths_are_absolute_and_the_state_folder_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    settings = settings_from("up", "--models-path", "models")
    assert settings.models_path == tmp_path / "models"
    assert settings.state_dir == default_state_dir()
    assert settings_from("up", "--state-dir", "here").state_dir == tmp_path / "here"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--port", "many"), ("--port", "'many'", "a whole number")),
        (("--stop-grace", "5"), ("--stop-grace", "30s")),
        (("--log-level", "loud"), ("--log-level", "debug, info, warning, error")),
        (("--no-such-flag",), ("--no-such-flag",)),
    ],
)
def test_a_bad_flag_is_named_with_what_would_be_accepted(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = output_of("up", *arguments)
    assert result.exit_code == 2
    assert all(word in result.output for word in words)


def test_the_data_folder_of_the_user_is_the_default_place() -> None:
    assert default_state_dir({"XDG_DATA_HOME": "/data"}) == Path("/data/localai")
    assert default_state_dir({"XDG_DATA_HOME": "relative"}) == default_state_dir({})
