"""What another account may reach, by mode bits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localai.embedded.account import Account, allows, blocked_at, server_account
from localai.embedded.state_folder import prepare
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
        server_account(name)


@pytest.mark.skipif(os.geteuid() == 0, reason="the rule is for other users")
def test_a_normal_users_servers_run_as_that_user() -> None:
    assert server_account("nobody") is None


def test_a_file_in_the_place_of_the_state_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartRefused, match="file cannot be used"):
        prepare(tmp_path / "file")


def test_a_new_state_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = prepare(tmp_path / "deep" / "state")
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert folder.logs.stat().st_mode & 0o777 == 0o700
