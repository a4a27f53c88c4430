"""The node secret: made once, private, and never replaced."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from localai.errors import StartRefused
from localai.nodes.secret_file import read_or_make

pytestmark = pytest.mark.unit


def test_a_secret_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "node-secret"
    secret = read_or_make(path)
    assert len(secret) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make(path) == secret
    assert read_or_make(tmp_path / "other") != secret
    assert sorted(found.name for found in tmp_path.iterdir()) == ["node-secret", "other"]


@pytest.mark.parametrize("content", [b"", b"short\n", b"two words of more than thirty-two characters", b"\xff" * 40])
def test_a_damaged_secret_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "node-secret"
    path.write_bytes(content)
    with pytest.raises(StartRefused, match="node-secret is damaged; restore it, or delete it"):
        read_or_make(path)
    assert path.read_bytes() == content


def test_a_secret_that_cannot_be_read_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "node-secret").mkdir()
    with pytest.raises(StartRefused, match="cannot be read"):
        read_or_make(tmp_path / "node-secret")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StartRefused, match="cannot be read"):
        read_or_make(tmp_path / "dangling")
    assert not (tmp_path / "nowhere").exists()


def test_a_secret_that_cannot_be_made_is_not_said_to_be_lost(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=r"node-secret cannot be made: No such file or directory$"):
        read_or_make(tmp_path / "no-folder" / "node-secret")
