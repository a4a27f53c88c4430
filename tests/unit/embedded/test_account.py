"""What another account may reach, by mode bits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localai.embedded import account as account_module
from localai.embedded.account import Account, allows, blocked_at, server_account
from localai.embedded.state_folder import prepare, server_folder
from localai.errors import StartRefused

pytestmark = pytest.mark.unit

OTHER = Account("other", 4711, 4712)
R, W, X = os.R_OK, os.W_OK, os.X_OK


@pytest.mark.parametrize(
    ("mode", "uid", "gid", "wanted", "answer"),
    [
        (0o700, 0, 0, X, False),
        (0o711, 0, 0, X, True),
        (0o711, 0, 0, R | X, False),
        (0o710, 0, OTHER.gid, X, True),
        (0o755, 0, 0, R | X, True),
        (0o700, OTHER.uid, 0, R | W | X, True),
        # The first class that fits decides, also when a later one would allow more.
        (0o077, OTHER.uid, 0, X, False),
        (0o707, 0, OTHER.gid, X, False),
    ],
)
def test_mode_bits_decide_by_the_first_class_that_fits(
    mode: int, uid: int, gid: int, wanted: int, answer: bool
) -> None:
    assert allows(mode, uid, gid, OTHER, wanted) is answer


def test_a_closed_parent_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    assert blocked_at(inner, OTHER, R | X) in [tmp_path / "closed", *tmp_path.parents, tmp_path]


def test_links_are_followed_to_what_they_point_at(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("")
    (tmp_path / "program").chmod(0o700)
    (tmp_path / "link").symlink_to("program")
    assert blocked_at(tmp_path / "link", OTHER, X) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="the rule is for root")
@pytest.mark.parametrize(("name", "said"), [("no-such-account", "no such account"), ("root", "do not run as root")])
def test_root_needs_another_account_that_exists(name: str, said: str) -> None:
    with pytest.raises(StartRefused, match=said):
        server_account(name, print)


@pytest.mark.skipif(os.geteuid() == 0, reason="the rule is for other users")
def test_a_normal_users_servers_run_as_that_user() -> None:
    assert server_account("nobody", print) is None


def test_a_file_in_the_place_of_the_state_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused, match="file cannot be used"):
        prepare(tmp_path / "file")


def test_a_new_state_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "deep" / "state")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.logs.stat().st_mode & 0o777 == 0o700


root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other accounts")


@root_only
def test_the_own_account_is_created_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    there: list[Account] = []
    said: list[str] = []
    monkeypatch.setattr(account_module, "_useradd", lambda: there.append(Account("localai", 997, 996)) or "")
    monkeypatch.setattr(account_module, "_account", lambda name: there[0] if there else None)
    assert server_account("localai", said.append) == Account("localai", 997, 996)
    assert said == ["created the system account localai (number 997): the embedded servers run as it"]


@root_only
def test_a_machine_without_useradd_is_warned_and_uses_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    shared = Account("nobody", 65534, 65534)
    monkeypatch.setattr(account_module, "_SYSTEM_PATH", "/nonexistent")
    monkeypatch.setattr(account_module, "_account", lambda name: shared if name == "nobody" else None)
    assert server_account("localai", said.append) == shared
    assert "WARNING" in said[0] and "useradd is not installed" in said[0] and "--server-user" in said[0]


@root_only
def test_a_folder_of_the_shared_account_is_taken_over_with_all_in_it(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    (data / "base" / "1").mkdir(parents=True)
    (data / "base" / "1" / "file").write_text("kept")
    (data / "link").symlink_to("/etc/passwd")
    for path in (data, *data.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    data.chmod(0o755)
    server_folder(data, OTHER)
    assert {path.lstat().st_uid for path in (data, *data.rglob("*"))} == {OTHER.uid}
    assert data.stat().st_mode & 0o777 == 0o700
    assert Path("/etc/passwd").stat().st_uid == 0
    assert (data / "base" / "1" / "file").read_text() == "kept"


@root_only
def test_an_interrupted_takeover_is_ended_by_the_next_start(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    (data / "base").mkdir(parents=True)
    os.chown(data / "base", 65534, 65534)  # and the folder itself is root's already
    server_folder(data, OTHER)
    assert {data.stat().st_uid, (data / "base").stat().st_uid} == {OTHER.uid}


@root_only
def test_a_file_with_a_second_name_is_not_given_away(tmp_path: Path) -> None:
    (tmp_path / "of-another").write_text("secret")
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "planted").hardlink_to(tmp_path / "of-another")
    os.chown(data, 65534, 65534)
    with pytest.raises(StartRefused, match="planted has a second name"):
        server_folder(data, OTHER)
    assert (tmp_path / "of-another").stat().st_uid == 0


@root_only
def test_a_folder_of_a_named_account_is_refused_with_both_numbers(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    data.mkdir()
    os.chown(data, 1, 1)
    with pytest.raises(StartRefused, match="belongs to account number 1, the servers run as number 4711"):
        server_folder(data, OTHER)
