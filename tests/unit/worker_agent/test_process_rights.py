"""The rights of processes: the account, the files, and the variables that they get."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from localai.errors import StartRefused
from worker_agent.processes import backend_account as accounts
from worker_agent.processes import environ, rights
from worker_agent.processes.backend_account import BackendAccount

pytestmark = pytest.mark.unit

AGENT = {
    "PATH": "/bin",
    "LC_ALL": "C",
    "CUDA_VISIBLE_DEVICES": "0",
    "OMP_NUM_THREADS": "1",
    "LOCALAI_REGISTRATION_TOKEN": "t",
    "LOCALAI_NATS_URL": "nats://u:p@h",
    "LOCALAI_AUTH_DATABASE_URL": "postgresql://u:p@h/d",
    "LOCALAI_LOG_LEVEL": "info",
    "AWS_SECRET_ACCESS_KEY": "k",
    "HF_TOKEN": "h",
    "PIP_INDEX_URL": "https://u:p@index/simple",
    "HTTPS_PROXY": "http://u:p@proxy:3128",
    "http_proxy": "http://proxy:3128",
    "PYTHONPATH": "/src",
}
PASSED = {"PATH", "LC_ALL", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "http_proxy"}


def test_a_model_process_inherits_listed_variables_only() -> None:
    assert set(environ.inherited(environ=AGENT)) == PASSED


def test_an_install_inherits_the_settings_of_pip_and_proxies_with_passwords_too() -> None:
    assert set(environ.inherited(environ=AGENT, installs=True)) == {*PASSED, "PIP_INDEX_URL", "HTTPS_PROXY"}


def test_further_names_are_passed_but_no_setting_of_this_program() -> None:
    found = environ.inherited(["HF_TOKEN", "AWS_*", "LOCALAI_*", "PYTHONPATH"], environ=AGENT)
    assert set(found) == {*PASSED, "HF_TOKEN", "AWS_SECRET_ACCESS_KEY"}


def test_an_install_reads_indexes_that_are_folders_of_this_machine() -> None:
    found = rights.local_indexes({"PIP_FIND_LINKS": "/wheels https://u:p@h/x", "PIP_INDEX_URL": "file:///opt/index"})
    assert found == [Path("/opt/index"), Path("/wheels")]


def test_a_folder_is_allowed_without_what_is_kept_out(tmp_path: Path) -> None:
    for name in ("a", "b/secret", "b/open"):
        (tmp_path / name).mkdir(parents=True)
    secret = tmp_path / "b" / "secret"
    assert rights.without(tmp_path, [secret]) == [tmp_path / "a", tmp_path / "b" / "open"]
    assert rights.without(tmp_path / "a", [secret]) == [tmp_path / "a"]
    assert rights.without(secret, [secret]) == []


def test_no_backend_user_is_the_account_of_the_worker() -> None:
    assert accounts.backend_account("") is None


@pytest.mark.parametrize(
    ("euid", "name", "words"),
    [
        (1000, "nobody", "only a worker that runs as root can"),
        (0, "no-such-account", "this machine has no such account"),
        (0, "root", "this account is root"),
    ],
)
def test_an_account_that_cannot_be_used_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch, euid: int, name: str, words: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    with pytest.raises(StartRefused, match=f"LOCALAI_BACKEND_USER='{name}': {words}"):
        accounts.backend_account(name)


def test_root_without_the_capabilities_refuses_and_names_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("CapEff:\t00000000000000e1\n")  # those a container has, without CAP_SYS_PTRACE
    monkeypatch.setattr(accounts, "_STATUS", status)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StartRefused, match="root without CAP_SYS_PTRACE and cannot"):
        accounts.backend_account("nobody")


def test_a_folder_is_shown_to_the_group_of_the_account_and_to_no_other(tmp_path: Path) -> None:
    account = BackendAccount("me", os.geteuid(), os.getegid(), (os.getegid(),), "/")
    folder = tmp_path / "model"
    folder.mkdir(mode=0o700)
    (folder / "weights").write_text("x")
    (folder / "weights").chmod(0o604)
    (folder / "run.sh").write_text("x")
    (folder / "run.sh").chmod(0o700)
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o600)
    (folder / "link").symlink_to(outside)
    accounts.show(folder, account)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {"model": 0o750, "weights": 0o640, "run.sh": 0o750, "link": 0o600}
