"""What commands say, without a server."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import localai
from localai.cli import jobs, keys, main, nodes, output, up
from localai.cli import run as run_command
from localai.cli.client import ServerError, error_text
from localai.cli.exit_codes import ExitCode
from localai.embedded.state_folder import StateFolder
from localai.errors import StartRefused
from localai.settings import Settings

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for _, spec in Settings.specs():
        for name in spec.variables:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCALAI_STATE_DIR", str(tmp_path))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    shown = capsys.readouterr()
    code = ended.value.code
    return (code if isinstance(code, int) else 0), shown.out, shown.err


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "version") == (0, f"localai {localai.__version__}\n", "")


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "--help")
    assert code == 0
    for name in main.COMMANDS:
        assert f"\n  {name} " in text
        code, own, _ = run(capsys, name, "--help")
        assert code == 0 and len(own.splitlines()) > 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), ("LOCALAI_AUTH_DATABASE_URL", "not set")),
        (("run", "--database-url", "postgresql://u@h/d"), ("LOCALAI_BROKER_URL", "not set")),
        (("worker",), ("--register-to",)),
        (("worker", "--register-to", "frontend:8080"), ("--register-to", "'frontend:8080'", "http://")),
        (("worker", "--register-to", "http://f:1"), ("LOCALAI_BROKER_URL",)),
        (("db", "upgrade"), ("LOCALAI_AUTH_DATABASE_URL",)),
    ],
)
def test_a_start_that_cannot_work_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert all(word in err for word in words)


def test_settings_that_do_not_fit_together_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "run", "--job-lease-ttl", "1h")
    assert (code, out, len(err.splitlines())) == (ExitCode.USAGE, "", 1)
    assert "LOCALAI_JOB_LEASE_TTL" in err and "do not fit together" in err


@pytest.mark.parametrize("switch", ["--registration-require-auth", "--distributed-require-auth"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "--database-url", "postgresql://u@h/d", "--broker-url", "redis://h"),
        ("worker", "--register-to", "http://f:1", "--broker-url", "redis://h"),
    ],
)
def test_se_01_a_missing_registration_token_is_refused_where_one_is_demanded(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], switch: str
) -> None:
    code, _, err = run(capsys, *command, switch)
    assert code == 1 and "LOCALAI_REGISTRATION_TOKEN is empty" in err.splitlines()[-1]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.1", ""])
def test_an_address_that_other_machines_reach_needs_a_registration_token_or_insecure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    def prepare(folder: object) -> None:
        raise StartRefused("the start went on")

    monkeypatch.setattr("localai.cli.run.prepare", prepare)
    command = ("run", "--database-url", "postgresql://u@h/d", "--broker-url", "redis://h", "--address")
    code, _, err = run(capsys, *command, address)
    assert code == 1
    assert all(text in err.splitlines()[-1] for text in ("LOCALAI_REGISTRATION_TOKEN is empty", address, "--insecure"))
    for arguments in ((address, "--insecure"), (address, "--registration-token", "t" * 20), ("127.0.0.1",)):
        code, _, err = run(capsys, *command, *arguments)
        assert "the start went on" in err.splitlines()[-1], err


@pytest.mark.parametrize(
    "command",
    [
        ("run", "--database-url", "postgresql://u@h/d", "--broker-url", "redis://h"),
        ("worker", "--register-to", "http://f:1", "--broker-url", "redis://h"),
    ],
)
def test_se_01_a_bus_without_credentials_is_refused_where_they_are_demanded(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    extra = ("--registration-token", "t", "--nats-url", "nats://bus:4222", "--distributed-require-auth")
    code, _, err = run(capsys, *command, *extra)
    assert code == 1 and "LOCALAI_NATS_URL has no credentials" in err.splitlines()[-1]


def test_se_01_a_missing_registration_token_is_said_aloud(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Executed(Exception):
        pass

    def execute(*_: object) -> None:
        raise Executed

    monkeypatch.setattr("os.execve", execute)
    with pytest.raises(Executed):
        main.main(["worker", "--register-to", "http://f:1", "--broker-url", "redis://h"])
    err = capsys.readouterr().err
    assert "WARNING: LOCALAI_REGISTRATION_TOKEN is empty" in err
    assert "its HTTP server on 0.0.0.0:50050 shows the logs of model processes" in err
    assert "WARNING: LOCALAI_NATS_URL is empty" in err and "up to 5 s later" in err


@pytest.mark.parametrize("key", ["short", "long-enough-for-a-server,short", "nineteen-characters"])
@pytest.mark.parametrize(
    "command", [("run", "--database-url", "postgresql://u@h/d", "--broker-url", "redis://h"), ("up",)]
)
def test_a_server_refuses_a_key_that_could_be_guessed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...], key: str
) -> None:
    code, _, err = run(capsys, *command, "--state-dir", str(tmp_path / "state"), "--api-key", key)
    assert code == ExitCode.USAGE and "LOCALAI_API_KEY" in err and "at least 20 characters" in err
    assert "openssl rand" in err and "short" not in err and "Traceback" not in err
    assert not (tmp_path / "state").exists(), "a refused start leaves nothing behind"


def test_the_key_of_another_program_is_reported_and_not_used(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "of-another-program-entirely")
    keys.check(Settings.load())
    assert "API_KEY is set and is not used" in capsys.readouterr().err
    keys.check(Settings.load(flags={"api_key": "given-for-this-very-server"}))
    assert capsys.readouterr().err == ""
    assert "API_KEY is not used" in error_text(401, "{}")


def test_a_worker_beside_up_reads_the_urls_from_its_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[dict[str, str]] = []

    class Executed(Exception):
        pass

    def execute(program: str, arguments: list[str], environment: dict[str, str]) -> None:
        started.append(environment)
        raise Executed

    monkeypatch.setattr("os.execve", execute)
    (tmp_path / "env").write_text(
        "LOCALAI_URL=http://127.0.0.1:9\nLOCALAI_BROKER_URL=redis://h\nLOCALAI_NATS_URL=nats://h\n"
        "LOCALAI_REGISTRATION_TOKEN=token\n"
    )
    with pytest.raises(Executed):
        main.main(["worker", "--state-dir", str(tmp_path), "--nats-url", "nats://mine"])
    assert started[0]["LOCALAI_REGISTER_TO"] == "http://127.0.0.1:9"
    assert started[0]["LOCALAI_BROKER_URL"] == "redis://h"
    assert started[0]["LOCALAI_REGISTRATION_TOKEN"] == "token"
    assert started[0]["LOCALAI_NATS_URL"] == "nats://mine", "what is set wins over the folder"

    with (tmp_path / "env").open("a") as file:
        file.write("LOCALAI_WORKER_BROKER_URL=redis://worker\nLOCALAI_WORKER_NATS_URL=nats://worker\n")
    with pytest.raises(Executed):
        main.main(["worker", "--state-dir", str(tmp_path)])
    assert started[1]["LOCALAI_BROKER_URL"] == "redis://worker", "with the rights of a worker"

    for name, value in (("BROKER", "redis"), ("NATS", "nats")):  # the same file, read by a shell
        monkeypatch.setenv(f"LOCALAI_{name}_URL", f"{value}://h")
        monkeypatch.setenv(f"LOCALAI_WORKER_{name}_URL", f"{value}://worker")
    with pytest.raises(Executed):
        main.main(["worker", "--register-to", "http://f:1", "--nats-url", "nats://mine"])
    assert (started[2]["LOCALAI_BROKER_URL"], started[2]["LOCALAI_NATS_URL"]) == ("redis://worker", "nats://mine")
    assert not {"LOCALAI_WORKER_BROKER_URL", "LOCALAI_WORKER_NATS_URL"} & set(started[2])


def test_an_unusable_state_folder_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "up", "--state-dir", str(tmp_path / "file"))
    assert code == 1 and len(err.splitlines()) == 1 and str(tmp_path / "file") in err


def test_no_message_is_no_request(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "chat", "model", "  ")
    assert code == 2 and "message is empty" in err


def test_an_error_shows_the_servers_own_words() -> None:
    assert error_text(404, '{"error": {"message": "no such model"}}') == "no such model"
    assert error_text(409, '{"error": "plain text"}') == "plain text"
    assert error_text(502, "<html>") == error_text(502, "[]") == "the server answered with status 502"
    assert "LOCALAI_API_KEY" in error_text(401, '{"error": {"message": "a key is required"}}')


def test_a_node_is_found_by_name_or_id_and_others_are_listed() -> None:
    known = [{"id": "1", "name": "one"}, {"id": "2", "name": "two"}]
    assert nodes.find(known, "two") == nodes.find(known, "2") == known[1]
    with pytest.raises(ServerError, match="'three'; registered: one, two"):
        nodes.find(known, "three")


def test_a_table_is_aligned_and_one_line_a_row() -> None:
    rows = [{"a": "x", "b": None}, {"a": "longer", "b": "two\nlines"}]
    assert output.table(rows, {"A": lambda row: row["a"], "B": lambda row: row["b"]}).splitlines() == [
        "A       B",
        "x       -",
        "longer  two lines",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**31, "2.0 GiB"), (2**43, "8.0 TiB")],
)
def test_sizes_are_for_people(count: int | None, text: str) -> None:
    assert output.size(count) == text


def test_progress_of_a_job_is_shown_only_where_bytes_are_known() -> None:
    assert jobs.progress({"bytes_done": 1, "bytes_total": 4}) == "25 % of 4 B"
    assert jobs.progress({"bytes_done": None, "bytes_total": 0}) == "-"


@pytest.mark.parametrize("model", [up.DEFAULT_MODEL, ""])
def test_the_curl_line_of_the_greeting_can_be_pasted_into_a_shell(tmp_path: Path, model: str) -> None:
    folder = StateFolder(tmp_path / "it's a folder")
    folder.models.mkdir(parents=True)
    folder.api_key.write_text("the-key\n")
    if model:
        (folder.models / f"{model}.yaml").write_text("")
    greeting = up._greeting(replace(Settings(), port=9000), folder)
    assert greeting.splitlines()[0] == "localai is ready at http://127.0.0.1:9000"
    line = next(line for line in greeting.splitlines() if line.strip().startswith("curl"))
    shell = subprocess.run(
        ["sh", "-c", f"curl() {{ printf '%s\\n' \"$@\"; }}\n{line}"], capture_output=True, text=True, check=True
    )
    words = shell.stdout.splitlines()
    assert words[0] == "http://127.0.0.1:9000" + ("/v1/chat/completions" if model else "/v1/models")
    assert "Authorization: Bearer the-key" in words
    if model:
        assert json.loads(words[-1])["model"] == model


def test_a_models_folder_whose_disk_is_away_refuses_no_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = StateFolder(tmp_path)
    folder.models.symlink_to(tmp_path / "not-mounted")
    run_command._make_models_folder(folder)
    assert f"the models folder {folder.models} cannot be made: File exists" in capsys.readouterr().err
    folder.models.unlink()
    run_command._make_models_folder(folder)
    assert folder.models.is_dir()
