"""Where a model's files may lie, and which digests are believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localai.errors import OperationFailed
from worker_agent.files.digests import DigestCache
from worker_agent.files.fetch import PARTIAL_MAX_AGE_S, sweep_partials
from worker_agent.files.paths import model_folder, within

pytestmark = pytest.mark.unit


def test_a_plain_name_is_its_folder_and_others_are_told_apart(tmp_path: Path) -> None:
    assert model_folder(tmp_path, "smollm2-135m").name == "smollm2-135m"
    names = {model_folder(tmp_path, name).name for name in ("org/name:v1", "org_name_v1", "org:name/v1", "..", ".x")}
    assert len(names) == 5
    assert all(model_folder(tmp_path, name).parent == tmp_path for name in ("../..", "/etc", "a/b"))
    assert model_folder(tmp_path, "org/name:v1").name.startswith("org_name_v1-")


@pytest.mark.parametrize("path", ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a\\b", "a\0b"])
def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(OperationFailed):
        within(tmp_path, path)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    with pytest.raises(OperationFailed):
        within(folder, "out/file")
    assert within(folder, "odd name/fi le") == folder / "odd name" / "fi le"


def test_st_05_a_digest_is_believed_only_while_size_and_time_are_the_same(tmp_path: Path) -> None:
    path, cache = tmp_path / "file", tmp_path / "digests"
    path.write_bytes(b"abc")
    DigestCache(cache).put(path, "d1")
    assert DigestCache(cache).get(path) == "d1"
    os.utime(path, ns=(1, 1))
    assert DigestCache(cache).get(path) is None
    cache.write_text("not json")
    assert DigestCache(cache).get(path) is None


def test_a_partial_that_nobody_goes_on_with_is_removed_after_a_day(tmp_path: Path) -> None:
    old, young, whole = (tmp_path / "m" / name for name in ("a.1.partial", "b.1.partial", "c"))
    old.parent.mkdir()
    now = 10 * PARTIAL_MAX_AGE_S
    for path, age_s in ((old, PARTIAL_MAX_AGE_S + 1), (young, PARTIAL_MAX_AGE_S - 1), (whole, now)):
        path.touch()
        os.utime(path, (now - age_s, now - age_s))
    sweep_partials(tmp_path, now)
    assert not old.exists()
    assert young.exists()
    assert whole.exists()
