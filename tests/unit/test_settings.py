"""The settings table: what is accepted, what is refused with which words, and that the page about it is fresh."""

from __future__ import annotations

import configparser
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from localai.cli.main import localai
from localai.errors import BadSetting
from localai.settings import Settings, Spec, default_state_dir, format_duration, parse_duration, settings_page
from localai.window_rules import INEQUALITIES

pytestmark = pytest.mark.unit

#: Durations of test backends, which bound nothing.
NO_WINDOWS = ("fault_install_delay_s",)
#: Windows that follow from others, as the page writes them.
DERIVED = {
    "three report intervals": Settings().fresh_report_s,
    "the kill TTL and a sixth": Settings().silent_worker_s,
    "two polls of the routes and a second": Settings().cut_grace_s,
    "1 s, or a 30th of the kill TTL": Settings().watchdog_interval_s,
}
ROOT = Path(__file__).resolve().parents[2]
SPECS = list(Settings.specs())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("250ms", 0.25),
        ("30s", 30),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("24h", 86400),
        (" 5m ", 300),
        ("1h1m1s", 3661),
        ("100us", 0.0001),
        ("100µs", 0.0001),
        ("0s", 0),
    ],
)
def test_a_duration_is_written_as_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "s", "-5s", "5 s", "5x", "1m 30s", "m30s", "1e3s", "30sec", "∞"])
def test_cf_04_a_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0"), (0.25, "250ms"), (30, "30s"), (90, "90s"), (300, "5m"), (86400, "24h"), (1.5, "1.5s")],
)
def test_a_duration_is_shown_as_short_as_it_can_be_and_read_back(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == seconds


def test_without_flags_and_variables_every_setting_has_the_default_of_the_table() -> None:
    assert Settings.load({}, {}) == Settings()


def test_every_variable_and_every_flag_is_there_once() -> None:
    variables = [name for _, spec in SPECS for name in spec.variables]
    flags = [flag for _, spec in SPECS for flag in (spec.flag, *spec.other_flags)]
    assert len(set(variables)) == len(variables)
    assert len(set(flags)) == len(flags)


def test_a_duration_setting_says_so_in_its_name_and_its_meaning_is_a_sentence() -> None:
    for name, spec in SPECS:
        assert (spec.kind == "duration") == name.endswith("_s"), name
        assert spec.meaning.endswith("."), name


def another(spec: Spec) -> str:
    """A text that is not the setting's default."""
    if spec.kind == "duration":
        return format_duration(spec.parse(spec.default) + 1)
    if spec.kind == "switch":
        return "false" if spec.parse(spec.default) else "true"
    if spec.kind == "choice":
        return next(choice for choice in spec.choices if choice != spec.default)
    if spec.kind in ("integer", "number"):
        return str(int(spec.default) + 1)
    if spec.variable == "LOCALAI_TRUSTED_PROXIES":
        return "10.0.0.0/8,fd00::1"
    return {"list": "one,two", "path": "/somewhere/with a space"}.get(spec.kind, spec.default + "another")


#: Settings that are refused without another one.
NEEDED = {
    "LOCALAI_CRASH_POINT_FILE": {"LOCALAI_ENABLE_FAULT_BACKEND": "true"},
    "LOCALAI_TLS_CERT": {"LOCALAI_TLS_KEY": "/key"},
    "LOCALAI_TLS_KEY": {"LOCALAI_TLS_CERT": "/cert"},
}


@pytest.mark.parametrize(("name", "spec"), SPECS, ids=[name for name, _ in SPECS])
def test_a_setting_is_read_from_its_variable_and_its_flag_and_given_to_a_child(name: str, spec: Spec) -> None:
    text, needed = another(spec), NEEDED.get(spec.variable, {})
    by_variable = Settings.load({spec.variable: text, **needed})
    by_flag = Settings.load(needed, {name: text})
    assert by_variable == by_flag != Settings()
    assert getattr(by_variable, name) == spec.parse(text)
    given = by_variable.environ()
    assert set(given) == {spec.variable, *needed}
    assert Settings.load(given) == by_variable


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_default() -> None:
    environ = {"LOCALAI_PORT": "9000"}
    assert Settings.load(environ).port == 9000
    assert Settings.load(environ, {"port": 9001}).port == 9001
    assert Settings.load(environ, {"port": None}).port == 9000


def test_an_empty_variable_is_none() -> None:
    assert Settings.load({"LOCALAI_PORT": ""}).port == Settings().port
    assert Settings.load({"LOCALAI_API_KEY": "", "LOCALAI_API_KEY_FILE": ""}).api_key == ()


@pytest.mark.parametrize(
    ("variable", "text", "accepted"),
    [
        ("LOCALAI_JOB_LEASE_TTL", "soon", "a duration such as 30s, 1m30s or 250ms"),
        ("LOCALAI_PORT", "http", "a whole number"),
        ("LOCALAI_PORT", "80.5", "a whole number"),
        ("LOCALAI_PORT", "65536", "a port from 0 to 65535"),
        ("LOCALAI_PORT", "-1", "zero or more"),
        ("LOCALAI_WEB_WORKERS", "0", "at least 1"),
        ("LOCALAI_UPLOAD_LIMIT", "0", "at least 1"),
        ("LOCALAI_AUTO_APPROVE_NODES", "perhaps", "true or false"),
        ("LOCALAI_STALE_ROUTING", "guess", "one of serve, refuse"),
        ("LOCALAI_HEARTBEAT_INTERVAL", "0", "a duration above zero"),
        ("LOCALAI_JOB_SWEEP_INTERVAL", "0s", "a duration above zero"),
    ],
)
def test_cf_04_a_value_that_cannot_be_used_is_refused_with_name_value_and_what_is_accepted(
    variable: str, text: str, accepted: str
) -> None:
    with pytest.raises(BadSetting) as refused:
        Settings.load({variable: text})
    message = refused.value.message
    assert variable in message
    assert accepted in message
    assert refused.value.value.rstrip("s") == text.rstrip("s")


def test_cf_04_an_unknown_flag_ends_the_command_with_its_name() -> None:
    for command in ("up", "run", "worker", "chat"):
        result = CliRunner().invoke(localai, [command, "--no-such-flag", "x"])
        assert result.exit_code == 2
        assert "--no-such-flag" in result.output


def test_cf_04_a_flag_that_cannot_be_used_ends_the_command_with_its_name_and_value() -> None:
    result = CliRunner().invoke(localai, ["up", "--job-lease-ttl", "soon"])
    assert result.exit_code == 2
    assert "--job-lease-ttl" in result.output
    assert "soon" in result.output


@pytest.mark.parametrize("variable", ["LOCALAI_API_KEY", "LOCALAI_REGISTRATION_TOKEN"])
@pytest.mark.parametrize("text", ["ключ", "schlüssel", "a\nb", "a\x7fb", "a\N{NO-BREAK SPACE}a"])
def test_a_key_that_no_client_can_send_is_refused_at_start_and_not_shown(variable: str, text: str) -> None:
    with pytest.raises(BadSetting) as refused:
        Settings.load({variable: text})
    assert variable.removeprefix("LOCALAI_") in refused.value.message
    assert "ASCII" in refused.value.message
    assert text not in refused.value.message


def test_a_secret_that_cannot_be_used_is_not_shown() -> None:
    secret = Spec("LOCALAI_X", "integer", "0", "A secret.", ("run",), secret=True)
    with pytest.raises(BadSetting) as refused:
        secret.parse("hunter2")
    assert "hunter2" not in refused.value.message


#: Field to change, value at the edge that is still refused, value just accepted, and the two settings the refusal names.
EDGES: list[tuple[str, float, float, str, str]] = [
    ("operation_report_interval_s", 15.5, 15, "LOCALAI_OPERATION_REPORT_INTERVAL", "LOCALAI_WORKER_KILL_TTL"),
    ("adopt_window_s", 84, 54, "LOCALAI_ADOPT_WINDOW", "LOCALAI_WORKER_KILL_TTL"),
    ("job_lease_ttl_s", 70, 69, "LOCALAI_JOB_LEASE_TTL", "LOCALAI_WORKER_KILL_TTL"),
    ("job_sweep_interval_s", 70, 69, "LOCALAI_ADOPT_WINDOW", "LOCALAI_WORKER_KILL_TTL"),
    ("stop_window_s", 106, 106.5, "LOCALAI_WORKER_KILL_TTL", "LOCALAI_STOP_WINDOW"),
    ("stop_grace_s", 52, 51.5, "LOCALAI_WORKER_KILL_TTL", "LOCALAI_STOP_WINDOW"),
    ("legacy_window_s", 149, 150, "LOCALAI_STOP_WINDOW", "LOCALAI_LEGACY_WINDOW"),
    ("waiter_poll_interval_s", 7.5, 7, "LOCALAI_WAITER_POLL_INTERVAL", "LOCALAI_REPORT_WINDOW"),
    ("report_window_s", 10, 11, "LOCALAI_WAITER_POLL_INTERVAL", "LOCALAI_REPORT_WINDOW"),
    ("frontend_lease_ttl_s", 120, 119, "LOCALAI_FRONTEND_LEASE_TTL", "LOCALAI_PORT_QUARANTINE"),
    ("port_quarantine_s", 90, 91, "LOCALAI_FRONTEND_LEASE_TTL", "LOCALAI_PORT_QUARANTINE"),
    ("heartbeat_checkpoint_s", 300, 299, "LOCALAI_NODE_HEARTBEAT_CHECKPOINT", "LOCALAI_STALE_NODE_THRESHOLD"),
    ("stale_node_threshold_s", 60, 61, "LOCALAI_NODE_HEARTBEAT_CHECKPOINT", "LOCALAI_STALE_NODE_THRESHOLD"),
    ("staging_stall_window_s", 9, 10, "LOCALAI_OPERATION_REPORT_INTERVAL", "LOCALAI_STAGING_STALL_WINDOW"),
    ("process_stall_window_s", 120, 119, "LOCALAI_PROCESS_STALL_WINDOW", "LOCALAI_GRPC_KEEPALIVE_TIMEOUT"),
    ("grpc_keepalive_timeout_s", 60, 61, "LOCALAI_PROCESS_STALL_WINDOW", "LOCALAI_GRPC_KEEPALIVE_TIMEOUT"),
    ("staging_max_duration_s", 300, 301, "LOCALAI_STAGING_STALL_WINDOW", "LOCALAI_STAGING_MAX_DURATION"),
]


@pytest.mark.parametrize(("name", "refused", "accepted", "small", "large"), EDGES, ids=[edge[0] for edge in EDGES])
def test_c15_windows_that_break_an_inequality_are_refused_with_both_settings(
    name: str, refused: float, accepted: float, small: str, large: str
) -> None:
    changed: dict[str, Any] = {name: refused}
    with pytest.raises(BadSetting) as error:
        replace(Settings(), **changed).check()
    assert small in error.value.message
    assert large in error.value.message
    replace(Settings(), **{name: accepted}).check()


def test_c15_every_inequality_has_its_edge_among_the_tests() -> None:
    variable = {name: spec.variable for name, spec in SPECS}
    tested = {(small, large) for _, _, _, small, large in EDGES}
    for rule in INEQUALITIES:
        first = next(name for name in rule.parts if name in variable)
        assert (variable[first], variable[rule.below]) in tested, rule.why


def test_c15_a_refusal_names_every_setting_of_the_sum_with_its_value() -> None:
    with pytest.raises(BadSetting) as error:
        replace(Settings(), job_lease_ttl_s=80.0).check()
    for named in ("LOCALAI_JOB_LEASE_TTL='80s'", "LOCALAI_ADOPT_WINDOW=15s", "LOCALAI_WORKER_KILL_TTL=90s"):
        assert named in error.value.message


@pytest.mark.parametrize("name", ["backend_install_timeout_s", "backend_start_timeout_s"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadSetting, match="above zero"):
        replace(Settings(), **{name: 0.0}).check()


def test_c15_a_stop_window_below_the_kill_ttl_is_refused_at_start() -> None:
    with pytest.raises(BadSetting):
        Settings.load({"LOCALAI_STOP_WINDOW": "80s"})


def test_scaled_windows_keep_their_order_and_the_intervals_that_follow_from_them() -> None:
    durations = {name: getattr(Settings(), name) / 10 for name, spec in SPECS if spec.kind == "duration"}
    scaled = replace(Settings(), **durations)
    scaled.check()
    assert scaled.job_renew_interval_s * 4 == scaled.job_lease_ttl_s
    assert scaled.watchdog_interval_s <= scaled.worker_kill_ttl_s / 30
    assert scaled.frontend_renew_interval_s * 6 <= scaled.frontend_lease_ttl_s
    assert scaled.dispatch_window_max_s == scaled.dispatch_window_s * 16


def test_every_require_auth_switch_asks_for_a_token() -> None:
    assert not Settings().require_registration_token
    assert replace(Settings(), registration_require_auth=True).require_registration_token
    assert replace(Settings(), distributed_require_auth=True).require_registration_token


def test_the_state_folder_is_in_the_users_data_folder_where_one_is_named(tmp_path: Path) -> None:
    assert default_state_dir({"XDG_DATA_HOME": str(tmp_path)}) == tmp_path / "localai"
    assert default_state_dir({"XDG_DATA_HOME": "relative"}) == default_state_dir({})


def test_the_page_about_windows_has_every_window_with_its_default_and_every_inequality() -> None:
    page = (ROOT / "docs/reference/windows.md").read_text(encoding="utf-8")
    specs = dict(SPECS)
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    by_setting = {row.split(" | ")[1].strip("`"): row.split(" | ")[2] for row in rows if row.count(" | ") >= 3}
    windows = {
        spec.variable: spec.default for name, spec in SPECS if spec.kind == "duration" and name not in NO_WINDOWS
    }
    assert {variable: by_setting.get(variable) for variable in windows} == windows
    for text, default in DERIVED.items():
        assert by_setting[text] == format_duration(default), text
    for rule in INEQUALITIES:
        for name in (*rule.parts, rule.below):
            if name in specs:
                wanted = f"| `{specs[name].variable}` | {specs[name].default} |"
                assert any(wanted in row for row in rows), wanted
        assert rule.why in page


def test_the_page_about_settings_is_fresh() -> None:
    page = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert page == settings_page(), "docs/reference/settings.md is stale: run `make fmt`"


def test_the_page_names_every_setting_and_the_fallbacks_of_the_port_range() -> None:
    page = settings_page()
    for _, spec in SPECS:
        assert f"`{spec.variable}`" in page
    assert "above 65535 is clamped, below the base port is ignored" in page


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({}, None),
        ({"distributed_require_auth": True}, "LOCALAI_REGISTRATION_TOKEN"),
        ({"registration_require_auth": True, "nats_url": "nats://h:4222"}, "LOCALAI_REGISTRATION_TOKEN"),
        ({"distributed_require_auth": True, "registration_token": "t"}, None),
        (
            {"distributed_require_auth": True, "registration_token": "t", "nats_url": "nats://h:4222"},
            "LOCALAI_NATS_URL",
        ),
        ({"nats_require_auth": True, "nats_url": "nats://h:4222"}, "LOCALAI_NATS_URL"),
        ({"nats_require_auth": True, "nats_url": "h:4222"}, "LOCALAI_NATS_URL"),
        ({"nats_require_auth": True, "nats_url": "nats://@h:4222"}, "LOCALAI_NATS_URL"),
        ({"nats_require_auth": True, "nats_url": "nats://a:b@h:4222,nats://h2:4222"}, "LOCALAI_NATS_URL"),
        ({"nats_require_auth": True, "nats_url": "nats://token@h:4222"}, None),
        ({"nats_require_auth": True, "nats_url": "nats://user:pass@h:4222"}, None),
        ({"nats_require_auth": True}, None),
    ],
)
def test_se_01_a_demanded_credential_that_is_missing_is_named(changes: dict[str, Any], missing: str | None) -> None:
    said = Settings(**changes).open_access()
    assert (said is None) if missing is None else (said or "").startswith(missing)


@pytest.mark.parametrize("value", ["two words", "line\nbreak", "x" * 256])
def test_an_instance_id_that_would_break_a_log_line_is_refused(value: str) -> None:
    with pytest.raises(BadSetting, match="LOCALAI_INSTANCE_ID"):
        Settings.load({"LOCALAI_INSTANCE_ID": value})


def test_both_console_scripts_start_the_same_command() -> None:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser["options.entry_points"]["console_scripts"].split("\n")
    scripts = dict(line.split(" = ") for line in lines if line)
    assert scripts == {"localai": "localai.cli.main:main", "local-ai": "localai.cli.main:main"}


def test_a_trusted_proxy_is_an_address_or_a_network() -> None:
    with pytest.raises(BadSetting, match="LOCALAI_TRUSTED_PROXIES"):
        Settings.load({"LOCALAI_TRUSTED_PROXIES": "10.0.0.1,proxy.internal"})
    assert Settings.load({"LOCALAI_TRUSTED_PROXIES": "10.0.0.0/8"}).trusted_proxies == ("10.0.0.0/8",)
