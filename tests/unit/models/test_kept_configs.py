"""Definitions stay in force until a complete newer content, or a deletion, replaces them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localai.errors import ModelNotFound, ModelsFolderUnavailable
from localai.models.loader import Changes, ModelConfigs
from localai.models.memory import ConfigMemory

pytestmark = pytest.mark.unit

GOOD = "name: m\nbackend: fault\nthreads: 1\n"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Folder:
    """A models folder with one good config, read by one process."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.path = path / "models"
        self.path.mkdir()
        self.file = self.path / "m.yaml"
        self.file.write_text(GOOD)
        self.memory = path / "memory.json"
        self.configs = self.process()
        self.settle()
        self.configs.remember()
        self.revision = self.revision_now()

    def process(self) -> ModelConfigs:
        configs = ModelConfigs(self.path, memory=ConfigMemory(self.memory, self.path), clock=self.clock)
        configs.refresh()
        return configs

    def settle(self) -> Changes:
        """Two looks, a second apart."""
        first = self.configs.refresh()
        self.clock.now += 1
        second = self.configs.refresh()
        return second or first

    def revision_now(self) -> str | None:
        config = self.configs.get("m")
        return config.revision if config else None


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("content", ["", "name: [", GOOD[:7], "name: m\nbackend: fault\nthreads: many\n"])
def test_an_unusable_content_keeps_the_last_usable_definitions(folder: Folder, content: str) -> None:
    folder.file.write_text(content)
    folder.settle()
    assert folder.revision_now() == folder.revision
    assert "the last usable definition of m stays in force" in folder.configs.problems["m.yaml"]
    folder.file.write_text(GOOD.replace("1", "2"))
    assert folder.settle() == Changes(changed=("m",))
    assert folder.configs.problems == {}


def test_one_bad_entry_of_a_file_keeps_the_whole_set(folder: Folder) -> None:
    folder.file.write_text("- {name: m, backend: fault}\n- {name: n, backend: fault}\n")
    folder.settle()
    folder.file.write_text("- {name: m, backend: fault, threads: 3}\n- {name: n, backend: '!'}\n")
    assert not folder.settle()
    assert [config.name for config in folder.configs.all()] == ["m", "n"]
    assert "m, n stays in force" in folder.configs.problems["m.yaml[1]"]


def test_a_content_is_taken_only_when_the_file_was_still_for_a_second(folder: Folder) -> None:
    folder.file.write_text("name: m\nbackend: fault\n")  # half of what its writer has to say
    assert not folder.configs.refresh()
    assert not folder.configs.is_settled
    folder.clock.now += 0.9
    assert not folder.configs.refresh()
    folder.file.write_text("name: m\nbackend: fault\nthreads: 2\n")
    folder.clock.now += 0.9
    assert not folder.configs.refresh(), "the second counts from the last change"
    folder.clock.now += 1
    assert folder.configs.refresh() == Changes(changed=("m",))
    assert folder.configs.is_settled


def test_a_file_that_changes_all_the_time_is_named(folder: Folder) -> None:
    for number in range(13):
        folder.file.write_text(GOOD + f"seed: {number}\n" + "#" * number)
        folder.configs.refresh()
        folder.clock.now += 0.9
    assert "changes all the time" in folder.configs.problems["m.yaml"]
    assert folder.revision_now() == folder.revision
    folder.settle()
    assert folder.configs.problems == {}


def test_a_file_that_is_away_for_a_moment_takes_no_model_away(folder: Folder) -> None:
    text = folder.file.read_text()
    folder.file.unlink()
    assert not folder.configs.refresh()
    folder.clock.now += 0.5
    folder.file.write_text(text)
    assert not folder.settle()
    folder.file.unlink()
    assert folder.settle() == Changes(removed=("m",))
    assert folder.configs.problems == {}


def test_a_renamed_file_changes_nothing(folder: Folder) -> None:
    for name in ("a.yaml", "z.yaml"):
        folder.file = folder.file.rename(folder.path / name)
        assert not folder.settle()
        assert (folder.revision_now(), folder.configs.problems) == (folder.revision, {})


def test_a_new_file_is_read_at_once_unless_it_defines_a_known_model(folder: Folder) -> None:
    (folder.path / "n.yaml").write_text("name: n\nbackend: fault\n")
    (folder.path / "a.yaml").write_text("name: m\nbackend: fault\n")
    assert folder.configs.refresh() == Changes(added=("n",))
    folder.clock.now += 1
    assert folder.configs.refresh() == Changes(changed=("m",))


def test_a_new_file_that_is_cut_short_at_once_keeps_its_first_definitions(folder: Folder) -> None:
    new = folder.path / "n.yaml"
    new.write_text("name: n\nbackend: fault\n")
    folder.configs.refresh()
    folder.configs.remember()
    assert [config.name for config in folder.process().kept()] == ["m"], "what is not still is not remembered"
    new.write_text("")
    folder.settle()
    assert [config.name for config in folder.configs.all()] == ["m", "n"]


def test_a_revision_that_the_content_has_is_taken_at_once(folder: Folder) -> None:
    """Another process saw the file still before it asked for this revision."""
    folder.file.write_text(GOOD.replace("1", "2"))
    wanted = ModelConfigs(folder.path)
    wanted.refresh()
    revision = wanted.require("m").revision
    found = folder.configs.find("m", revision)
    assert found is not None
    assert found.revision == revision
    folder.file.write_text(GOOD.replace("1", "3"))
    found = folder.configs.find("m", "0" * 64)
    assert found is not None
    assert found.revision == revision, "a content that is not still and not asked for is not taken"


def test_a_folder_that_cannot_be_listed_changes_nothing(folder: Folder) -> None:
    away = folder.path.rename(folder.path.with_name("away"))
    assert not folder.settle()
    assert folder.revision_now() == folder.revision
    problem = folder.configs.problems[str(folder.path)]
    assert "cannot be listed: No such file or directory; known models stay as they were" in problem
    with pytest.raises(ModelsFolderUnavailable, match="cannot be listed"):
        folder.configs.require("unknown")
    away.rename(folder.path)
    assert not folder.settle()
    assert folder.configs.problems == {}
    with pytest.raises(ModelNotFound):
        folder.configs.require("unknown")


def test_another_folder_without_configs_is_a_missing_disk(folder: Folder) -> None:
    away = folder.path.rename(folder.path.with_name("away"))
    folder.path.mkdir()
    assert not folder.settle()
    assert "is its disk mounted" in str(folder.configs.folder_problem)
    folder.path.rmdir()
    away.rename(folder.path)
    assert not folder.settle()
    folder.file.unlink()
    assert folder.settle() == Changes(removed=("m",)), "the same folder without configs has lost them"


def test_a_next_process_starts_with_what_was_known(folder: Folder) -> None:
    folder.configs.remember()
    assert folder.memory.stat().st_mode & 0o077 == 0, "configs may hold secrets"
    folder.file.write_text("")
    folder.configs = folder.process()
    folder.settle()
    assert folder.revision_now() == folder.revision
    away = folder.path.rename(folder.path.with_name("away"))
    folder.configs = folder.process()
    assert folder.revision_now() == folder.revision
    folder.path.mkdir()
    folder.configs = folder.process()
    assert not folder.settle(), "an empty folder in its place is a missing disk"
    folder.path.rmdir()
    away.rename(folder.path)
    (folder.path / "n.yaml").write_text("name: n\nbackend: fault\n")
    folder.file.unlink()
    folder.configs = folder.process()
    assert folder.revision_now() == folder.revision, "a deletion is believed after a second"
    assert folder.settle() == Changes(removed=("m",))


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"folder": "/elsewhere", "identity": null, "files": {}}'])
def test_a_damaged_memory_is_an_empty_one(folder: Folder, damage: str) -> None:
    folder.memory.write_text(damage)
    configs = folder.process()
    assert configs.kept() == []
    assert configs.get("m") is not None


@pytest.mark.parametrize("identity", ["[]", "[1]", '["x", 2]', '{"a": 1}', "7"])
def test_a_memory_with_a_damaged_identity_is_an_empty_one(folder: Folder, identity: str) -> None:
    folder.memory.write_text(f'{{"folder": "{folder.path.absolute()}", "identity": {identity}, "files": {{}}}}')
    assert folder.process().get("m") is not None


def test_a_memory_that_cannot_be_written_stops_nothing(folder: Folder, tmp_path: Path) -> None:
    memory = ConfigMemory(tmp_path / "none" / "memory.json", folder.path)
    configs = ModelConfigs(folder.path, memory=memory)
    configs.refresh()
    configs.remember()
    configs.remember()
    assert configs.get("m") is not None


def test_a_revision_survives_the_memory_with_every_kind_of_value(folder: Folder) -> None:
    folder.file.write_text("name: m\nbackend: fault\nwhen: 2026-12-01\nmap: {1: a}\nlarge: 1.0e+300\ntext: \u2028é\n")
    folder.settle()
    folder.configs.remember()
    (kept,) = folder.process().kept()
    assert kept.revision == folder.revision_now()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    configs = ModelConfigs(tmp_path / "none")
    configs.refresh()
    assert configs.all() == []
    assert "cannot be listed" in configs.problems[str(tmp_path / "none")]
    shutil.copytree(tmp_path, tmp_path / "none", dirs_exist_ok=True, ignore=lambda *_: ["none"])
    configs.refresh()
    assert configs.problems == {}
