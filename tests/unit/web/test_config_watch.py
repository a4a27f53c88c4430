"""A config edited by hand is in force once a process that saw the change has said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from localai.errors import StorageUnavailable
from localai.models.loader import ModelConfigs
from web.config_watch import ConfigWatch

pytestmark = pytest.mark.unit


def write(folder: Path, name: str, **keys: str) -> None:
    lines = [f"name: {name}", "backend: fault", *(f"{key}: {value}" for key, value in keys.items())]
    (folder / f"{name}.yaml").write_text("\n".join(lines))


def test_only_a_change_seen_here_is_said(tmp_path: Path) -> None:
    configs, said = ModelConfigs(tmp_path), []
    watch = ConfigWatch(configs, lambda model, revision: said.append((model, revision)), 30)
    write(tmp_path, "old")
    write(tmp_path, "edited")
    watch.start()
    watch.stop()
    watch.step()
    assert said == [], "what was there already is no news"
    write(tmp_path, "edited", description="other words")
    write(tmp_path, "new")
    watch.step()
    config = configs.get("edited")
    assert config is not None
    assert said == [("edited", config.revision)]
    watch.step()
    assert len(said) == 1


def test_an_edit_by_way_of_a_file_that_could_not_be_used_is_said(tmp_path: Path) -> None:
    """Else its replicas would serve on: no load asks for a revision while the table has a replica."""
    configs, said = ModelConfigs(tmp_path), []
    watch = ConfigWatch(configs, lambda model, revision: said.append((model, revision)), 30)
    write(tmp_path, "m")
    watch.start()
    watch.stop()
    (tmp_path / "m.yaml").write_text("name: [")
    watch.step()
    assert (said, configs.get("m")) == ([], None)
    write(tmp_path, "m", description="edited")
    watch.step()
    config = configs.get("m")
    assert config is not None
    assert said == [("m", config.revision)]


def test_what_the_database_did_not_take_is_said_again(tmp_path: Path) -> None:
    said: list[str] = []
    refusing = [True]

    def revise(model: str, revision: str) -> None:
        if refusing:
            raise StorageUnavailable
        said.append(model)

    configs = ModelConfigs(tmp_path)
    watch = ConfigWatch(configs, revise, 30)
    write(tmp_path, "m")
    watch.start()
    watch.stop()
    write(tmp_path, "m", description="edited")
    with pytest.raises(StorageUnavailable):
        watch.step()
    refusing.clear()
    watch.step()
    assert said == ["m"]
