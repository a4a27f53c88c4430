"""A file is read once for its digest, and again when it may have changed."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause
from localai.staging.digests import Digests

pytestmark = pytest.mark.unit


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


SHA256 = hashlib.sha256(b"content").hexdigest()


def test_a_digest_is_computed_once_and_then_known(file: Path) -> None:
    digests, seen = Digests(), []
    assert digests.known(file) is None
    assert digests.digest(file, lambda done, total: seen.append((done, total))) == SHA256
    assert seen == [(7, 7)]
    assert digests.known(file) == SHA256
    digests.digest(file, lambda done, total: seen.append((done, total)))
    assert len(seen) == 1


def test_a_file_with_another_size_or_time_is_read_again(file: Path) -> None:
    digests = Digests()
    digests.digest(file)
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert digests.known(file) is None
    digests.digest(file)
    file.write_bytes(b"longer content")
    assert digests.digest(file) == hashlib.sha256(b"longer content").hexdigest()


def test_another_process_finds_the_digest_in_the_shared_file(file: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache.json"
    first, second = Digests(cache), Digests(cache)
    assert second.known(file) is None
    first.digest(file)
    assert second.known(file) == SHA256
    assert Digests(cache).known(file) == SHA256


@pytest.mark.parametrize("content", ["{", "[1]", '{"a": 1}', '{"a": [1, 2]}'])
def test_a_damaged_cache_is_an_empty_one(file: Path, tmp_path: Path, content: str) -> None:
    cache = tmp_path / "cache.json"
    cache.write_text(content)
    digests = Digests(cache)
    assert digests.known(file) is None
    assert digests.digest(file) == SHA256
    assert Digests(cache).known(file) == SHA256


def test_a_cancel_ends_the_reading(file: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        Digests().digest(file, cancelled=lambda: True)
    assert caught.value.cause == Cause.CANCELLED


def test_a_file_that_does_not_exist_has_no_digest(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Digests().known(tmp_path / "none")


def test_a_folder_that_takes_no_file_leaves_digests_to_the_next(
    file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    refusing, taking = tmp_path / "none" / "digests.json", tmp_path / "digests.json"
    digests = Digests(refusing, taking)
    sha256 = digests.digest(file)
    digests.remember(file, sha256)
    assert Digests(refusing, taking).known(file) == sha256
    assert caplog.text.count("are not kept in") == 1
    assert Digests(refusing).digest(file) == sha256, "without any place to keep it, it is computed all the same"


def test_digests_of_both_files_are_known(file: Path, tmp_path: Path) -> None:
    shared, own = tmp_path / "shared.json", tmp_path / "own.json"
    sha256 = Digests(own).digest(file)
    assert Digests(shared, own).known(file) == sha256
    assert Digests(own, shared).known(file) == sha256
