"""Lock files of backends: complete, fresh, and readable by pip."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from localai.backends import catalogue, lock
from localai.backends.catalogue import Entry
from localai.backends.platform_rules import Build

pytestmark = pytest.mark.unit

ENTRIES = [entry for entry in catalogue.entries(enable_fault=True) if entry.requirements is not None]


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_every_pinned_package_has_hashes_and_no_other_package_is_in_the_lock(entry: Entry) -> None:
    assert entry.requirements is not None and entry.lock is not None
    names = [line.partition("==") for line in lock.pinned(entry.requirements)]
    wanted = [f"{lock.canonical(name)}=={version}" for name, _, version in names]
    found = lock.read(entry.lock)
    assert list(found) == wanted, "make the lock anew: make lock"
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digests in found.values() for digest in digests)
    assert all(found.values())
    assert lock.text_of(entry, found) == entry.lock.read_text(encoding="utf-8")
    assert entry.lock in catalogue.contents(entry.source), "a new lock is a new version"


def test_every_build_and_every_python_is_a_target() -> None:
    targets = lock.targets_of([Build("linux", "x86_64", glibc=(2, 17)), Build("darwin", "arm64")])
    assert len(targets) == 2 * len(lock.PYTHONS)
    linux, mac = targets[:2]
    assert linux.platforms[:3] == ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux_2_16_x86_64")
    assert {"manylinux2010_x86_64", "manylinux1_x86_64"} <= set(linux.platforms)
    assert mac.platforms == ("macosx_14_0_arm64",)


@pytest.mark.parametrize("line", ["tiny", "tiny>=1", "-r other.txt", "tiny @ file:///tiny.whl"])
def test_a_requirement_that_is_not_pinned_has_no_lock(tmp_path: Path, line: str) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text(f"# comment\nfine==1.0\n{line}\n")
    with pytest.raises(ValueError, match="is not name==version"):
        lock.pinned(path)
