"""The built-in gallery is usable, and gives each entry to a machine once."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from localai.backends import catalogue
from localai.galleries import wheels
from localai.galleries.index import builtin_models, write_new_entries
from localai.models.loader import ModelConfigs

pytestmark = pytest.mark.unit


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


def test_every_entry_names_a_known_backend_and_pins_its_files() -> None:
    for entry in builtin_models():
        assert catalogue.find(entry.config["backend"], enable_fault=False)
        for file in entry.config["download_files"]:
            assert wheels.parse(file["uri"])
            assert len(file["sha256"]) == 64
            assert file["size"] > 0
        assert entry.size == sum(file["size"] for file in entry.config["download_files"])


def test_smollm2_speaks_with_a_system_prompt_and_temperature_zero(models: Path) -> None:
    write_new_entries(models, models / ".given")
    configs = ModelConfigs(models)
    configs.refresh()
    config = configs.get("smollm2-135m")
    assert config is not None
    assert config.system_prompt == "You are a helpful assistant. Use plain English."
    assert config.parameters.temperature == 0
    assert config.template.use_tokenizer_template


def test_minilm_is_an_encoder_whose_tokenizer_lies_beside_it(models: Path) -> None:
    write_new_entries(models, models / ".given")
    configs = ModelConfigs(models)
    configs.refresh()
    config = configs.get("minilm-l6-v2")
    assert config is not None
    assert config.loading.embeddings
    assert config.known_usecases == ("embeddings", "rerank")
    assert {file.filename for file in config.download_files} == {
        config.model,
        str(Path(config.model or "").with_name("tokenizer.json")),
    }


def test_new_entries_are_written_once(models: Path) -> None:
    assert write_new_entries(models, models / ".given") == ["smollm2-135m", "minilm-l6-v2"]
    assert yaml.safe_load((models / "smollm2-135m.yaml").read_text())["name"] == "smollm2-135m"
    assert write_new_entries(models, models / ".given") == []


def test_a_folder_of_an_older_release_gets_what_is_new_once(models: Path) -> None:
    (models / ".given").write_text('["smollm2-135m"]\n')
    assert write_new_entries(models, models / ".given") == ["minilm-l6-v2"]
    assert not (models / "smollm2-135m.yaml").exists(), "its owner removed it"
    (models / "minilm-l6-v2.yaml").unlink()
    assert write_new_entries(models, models / ".given") == []


def test_a_removed_config_is_never_written_again(models: Path) -> None:
    write_new_entries(models, models / ".given")
    (models / "smollm2-135m.yaml").unlink()
    assert write_new_entries(models, models / ".given") == []
    assert not (models / "smollm2-135m.yaml").exists()


def test_a_config_of_that_name_is_left_alone(models: Path) -> None:
    (models / "smollm2-135m.yaml").write_text("mine")
    assert write_new_entries(models, models / ".given") == ["minilm-l6-v2"]
    assert (models / "smollm2-135m.yaml").read_text() == "mine"
    (models / "smollm2-135m.yaml").unlink()
    assert write_new_entries(models, models / ".given") == []


def test_a_damaged_marker_brings_nothing_back(models: Path) -> None:
    (models / ".given").write_text("{")
    assert write_new_entries(models, models / ".given") == []
    assert list(models.glob("*.yaml")) == []
