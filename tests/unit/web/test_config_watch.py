"""An edit or deletion of a config file is in force once a process that saw it has told the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from localai.errors import StorageUnavailable
from localai.models.loader import ModelConfigs
from localai.models.memory import ConfigMemory
from localai.models.revision_rules import Evidence, Standing
from web.config_watch import ConfigWatch

pytestmark = pytest.mark.unit


def write(folder: Path, name: str, **keys: str) -> None:
    lines = [f"name: {name}", "backend: fault", *(f"{key}: {value}" for key, value in keys.items())]
    (folder / f"{name}.yaml").write_text("\n".join(lines))


@dataclass
class Rows:
    """The revisions in force, and what was said about them."""

    in_force: dict[str, str] = field(default_factory=dict)
    said: list[tuple[str, str | None]] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)
    reads: int = 0
    down: bool = False
    standing: Standing = Standing.SET

    def revisions(self, models: Sequence[str]) -> Mapping[str, str]:
        self.reads += 1
        if self.down:
            raise StorageUnavailable
        return {name: self.in_force[name] for name in models if name in self.in_force}

    def revise(self, model: str, revision: str, evidence: Evidence) -> Standing:
        assert evidence.changed_at is not None
        assert not evidence.for_load
        self.said.append((model, evidence.was))
        if self.standing is Standing.SET:
            self.in_force[model] = revision
        return self.standing


@dataclass
class Process:
    """One web process of a frontend whose models folder and state folder outlive it."""

    folder: Path
    rows: Rows

    def __post_init__(self) -> None:
        models = self.folder / "models"
        models.mkdir(exist_ok=True)
        self.configs = ModelConfigs(models, memory=ConfigMemory(self.folder / "memory.json", models), still_s=0)
        self.watch = ConfigWatch(self.configs, self.rows, self.rows.unloaded.append, 30)
        self.configs.refresh()
        self.watch.step()

    def revision(self, name: str) -> str:
        return self.configs.require(name).revision


@pytest.fixture
def rows() -> Rows:
    return Rows()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def test_an_edit_seen_here_is_reported_once(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "old")
    write(models, "edited")
    process = Process(tmp_path, rows)
    before = process.revision("edited")
    rows.in_force = {"old": process.revision("old"), "edited": before}
    process.watch.step()
    assert rows.said == []
    write(models, "edited", description="other words")
    write(models, "new")
    process.watch.step()
    assert rows.said == [("edited", before)]
    reads = rows.reads
    process.watch.step()
    assert (rows.reads, len(rows.said)) == (reads, 1), "a pass without changes asks the rows nothing"


def test_an_edit_made_while_no_process_ran_is_reported_by_the_next(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    process = Process(tmp_path, rows)
    before = process.revision("m")
    rows.in_force["m"] = before
    write(models, "m", description="edited")
    after = Process(tmp_path, rows).revision("m")
    assert rows.said == [("m", before)]
    assert rows.in_force == {"m": after}
    Process(tmp_path, rows)
    assert len(rows.said) == 1


def test_a_first_start_reports_what_differs_from_the_rows(tmp_path: Path, models: Path, rows: Rows) -> None:
    """A frontend without a memory: only the time of its file can speak for it."""
    write(models, "m")
    rows.in_force["m"] = "another revision"
    Process(tmp_path, rows)
    assert rows.said == [("m", None)]


def test_a_file_that_is_older_than_the_revision_in_force_is_named(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    rows.in_force["m"], rows.standing = "a newer revision", Standing.OTHER
    process = Process(tmp_path, rows)
    assert "another revision of this model is in force" in process.configs.problems["m"]
    process = Process(tmp_path, rows)
    assert "another revision of this model is in force" in process.configs.problems["m"], "also after a restart"
    rows.in_force["m"] = process.revision("m")
    process.watch.step()
    assert process.configs.problems == {}


def test_an_edit_by_way_of_an_unusable_file_is_reported(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    process = Process(tmp_path, rows)
    before = rows.in_force["m"] = process.revision("m")
    (models / "m.yaml").write_text("name: [")
    process.watch.step()
    assert (rows.said, process.revision("m")) == ([], before)
    write(models, "m", description="edited")
    process.watch.step()
    assert rows.said == [("m", before)]
    assert rows.in_force["m"] == process.revision("m")


def test_a_deleted_config_unloads_its_model(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    write(models, "stays")
    process = Process(tmp_path, rows)
    rows.in_force["m"] = process.revision("m")
    (models / "m.yaml").unlink()
    process.watch.step()
    process.watch.step()
    assert rows.unloaded == ["m"]


def test_a_config_deleted_while_no_process_ran_unloads_its_model(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    write(models, "stays")
    rows.in_force["m"] = Process(tmp_path, rows).revision("m")
    (models / "m.yaml").unlink()
    Process(tmp_path, rows)
    assert rows.unloaded == ["m"]
    Process(tmp_path, rows)
    assert rows.unloaded == ["m"]


def test_a_deleted_file_of_another_revision_unloads_nothing(tmp_path: Path, models: Path, rows: Rows) -> None:
    """Another frontend has put its own file in force; its model is not this folder's business."""
    write(models, "m")
    process = Process(tmp_path, rows)
    rows.in_force["m"] = "what another frontend has"
    (models / "m.yaml").unlink()
    process.watch.step()
    assert rows.unloaded == []


def test_a_folder_that_is_away_unloads_nothing(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    process = Process(tmp_path, rows)
    rows.in_force["m"] = process.revision("m")
    away = models.rename(tmp_path / "away")
    process.watch.step()
    process.watch.step()
    assert rows.unloaded == []
    assert process.configs.get("m") is not None
    away.rename(models)
    write(models, "m", description="edited meanwhile")
    process.watch.step()
    assert [model for model, _ in rows.said] == ["m"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_report_that_the_database_did_not_take_is_made_again(
    tmp_path: Path, models: Path, rows: Rows, restarted: bool
) -> None:
    write(models, "m")
    process = Process(tmp_path, rows)
    rows.in_force["m"] = process.revision("m")
    write(models, "m", description="edited")
    rows.down = True
    with pytest.raises(StorageUnavailable):
        process.watch.step()
    rows.down = False
    if restarted:
        Process(tmp_path, rows)
    else:
        process.watch.step()
    assert [model for model, _ in rows.said] == ["m"]


def test_a_file_that_is_not_still_is_looked_at_again_soon(tmp_path: Path, models: Path, rows: Rows) -> None:
    write(models, "m")
    configs = ModelConfigs(models)
    watch = ConfigWatch(configs, rows, rows.unloaded.append, 30)
    configs.refresh()
    assert watch.next_look_s == 1
    settled = ModelConfigs(models, still_s=0)
    settled.refresh()
    assert ConfigWatch(settled, rows, rows.unloaded.append, 30).next_look_s == 30
