"""Files of the state folder: whole, private, and readable by a shell."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from localai.embedded import env_file, valkey
from localai.embedded.credentials import draw
from localai.embedded.private_files import create_private, replace_private
from localai.embedded.process import describe_exit, last_lines
from localai.embedded.state_folder import StateFolder, admin_key
from localai.errors import StartRefused

pytestmark = pytest.mark.unit

GIVEN = "given-by-an-administrator"


def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    replace_private(path, "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    replace_private(path, "two")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_exists_is_kept_by_a_create(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert create_private(path, "first")
    assert not create_private(path, "second")
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(OSError, match="folder"):
        replace_private(path, "text")
    assert list(tmp_path.iterdir()) == [path]


def test_the_env_file_reads_back_and_a_shell_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "env"
    values = {"LOCALAI_NATS_URL": "nats://a_b-c@127.0.0.1:4222", "LOCALAI_URL": "http://127.0.0.1:8080"}
    env_file.write(path, values)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert env_file.read(path) == values
    shown = subprocess.run(
        ["sh", "-c", f"set -a; . '{path}'; printf %s \"$LOCALAI_NATS_URL\""], capture_output=True, text=True, check=True
    )
    assert shown.stdout == values["LOCALAI_NATS_URL"]


@pytest.mark.parametrize("value", ["", "with space", "a\nb", "a'b", 'a"b', "$HOME", "`id`", "a\\b"])
def test_a_value_that_a_shell_would_read_otherwise_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ValueError, match="KEY"):
        env_file.write(tmp_path / "env", {"KEY": value})
    assert not (tmp_path / "env").exists()


def test_an_absent_env_file_is_empty_and_odd_lines_are_passed_over(tmp_path: Path) -> None:
    assert env_file.read(tmp_path / "env") == {}
    (tmp_path / "env").write_text("# comment\n\nno sign\nA = b=c \n")
    assert env_file.read(tmp_path / "env") == {"A": "b=c"}


def test_the_admin_key_is_drawn_once_and_private(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    key = admin_key(folder, "")
    assert len(key) > 32
    assert admin_key(folder, "") == key
    assert stat.S_IMODE(folder.api_key.stat().st_mode) == 0o600


@pytest.mark.parametrize("key", ["ключ", "schlüssel", "two\nlines", "bell\a"])
def test_a_kept_admin_key_that_no_client_can_send_is_refused_with_its_file_and_a_given_one_replaces_it(
    tmp_path: Path, key: str
) -> None:
    folder = StateFolder(tmp_path)
    folder.api_key.write_text(key + "\n", encoding="utf-8")
    with pytest.raises(StartRefused, match=r"api-key cannot be used; accepted: .*ASCII") as refused:
        admin_key(folder, "")
    assert key not in refused.value.message
    assert admin_key(folder, GIVEN) == GIVEN
    assert admin_key(folder, "") == GIVEN


def test_a_given_admin_key_is_the_one_in_the_file(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    admin_key(folder, "")
    assert admin_key(folder, GIVEN) == GIVEN
    assert folder.api_key.read_text() == f"{GIVEN}\n"
    assert admin_key(folder, "") == GIVEN


def test_a_kept_admin_key_that_could_be_guessed_is_refused_with_its_file(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.api_key.write_text("nineteen-characters\n")
    with pytest.raises(StartRefused, match=r"api-key has 19 characters.*at least 20.*a new key is drawn") as refused:
        admin_key(folder, "")
    assert "nineteen" not in refused.value.message


def test_an_empty_key_file_is_no_key(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.api_key.write_text("\n")
    with pytest.raises(StartRefused, match="api-key is empty"):
        admin_key(folder, "")


def test_the_end_of_a_log_is_its_last_lines_that_say_something(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 20_000 + b"\none\n\n  \ntwo\xff\n")
    assert last_lines(log, 2) == ["one", "two\ufffd"]
    assert last_lines(tmp_path / "none", 2) == last_lines(None, 2) == []


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "signal SIGKILL"), (-99, "signal 99")]
)
def test_an_exit_is_described_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words


def test_the_queue_gets_its_folder_with_its_next_start_if_a_set_aside_ended_halfway(tmp_path: Path) -> None:
    credentials = draw(lambda _: True)
    child = valkey.prepare(StateFolder(tmp_path), Path("/usr/bin/valkey-server"), credentials, None)
    child.cwd.rename(tmp_path / valkey.ASIDE)
    child.before_start()
    assert (child.cwd / valkey.CONFIG).read_text() == valkey.config_text(credentials)
