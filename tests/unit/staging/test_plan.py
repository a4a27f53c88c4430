"""Every declared file is staged, and a missing one is told before anything moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause
from localai.models.config import ModelConfig, parse_config
from localai.staging.digests import Digests
from localai.staging.hub_ids import hub_id
from localai.staging.plan import missing_files, ready_files, staged_files

pytestmark = pytest.mark.unit


def config(**keys: Any) -> ModelConfig:
    return parse_config({"name": "alpha", "backend": "fault"} | keys)


def download(filename: str, **keys: Any) -> dict[str, Any]:
    return {"filename": filename, "uri": "wheel://a@1/b"} | keys


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_a_config_without_files_stages_nothing(tmp_path: Path) -> None:
    assert staged_files(config(), tmp_path) == ()
    assert ready_files(config(), tmp_path, Digests()) == ()


def test_st_03_main_file_field_files_downloads_and_option_files_are_staged(tmp_path: Path) -> None:
    put(tmp_path, "main.bin", "side/proj.bin", "vocab.txt", "draft.bin", "unrelated.bin")
    wanted = config(
        parameters={"model": "main.bin"},
        mmproj="side/proj.bin",
        download_files=[download("vocab.txt")],
        options=["draft:draft.bin", "parallel:2", "path:/etc/passwd", "up:../x"],
    )
    planned = staged_files(wanted, tmp_path)
    assert [file.path for file in planned] == ["main.bin", "side/proj.bin", "vocab.txt", "draft.bin"]
    assert planned[1].local == tmp_path / "side" / "proj.bin"
    assert planned[1].size == len("side/proj.bin")


@pytest.mark.parametrize("value", ["no" * 200, "/" * 5000, "x/" * 3000])
def test_an_option_that_can_be_no_file_name_is_no_file_and_no_fault(tmp_path: Path, value: str) -> None:
    assert staged_files(config(options=[f"text:{value}"]), tmp_path) == ()


def test_a_model_config_is_no_file_of_a_model(tmp_path: Path) -> None:
    put(tmp_path, "other.yaml", "sub/tokens.yaml", "main.bin")
    found = staged_files(
        config(parameters={"model": "main.bin"}, options=["x:other.yaml", "y:sub/tokens.yaml"]), tmp_path
    )
    assert [file.path for file in found] == ["main.bin", "sub/tokens.yaml"]
    with pytest.raises(OperationFailed, match="configs are not given to nodes") as refused:
        staged_files(config(parameters={"model": "other.yaml"}), tmp_path)
    assert refused.value.cause == Cause.BAD_CONFIG


def test_a_file_declared_twice_is_staged_once_with_its_promise(tmp_path: Path) -> None:
    put(tmp_path, "main.bin")
    wanted = config(parameters={"model": "main.bin"}, download_files=[download("main.bin", sha256="ab" * 32)])
    (file,) = staged_files(wanted, tmp_path)
    assert file.declared_sha256 == "ab" * 32


def test_a_folder_is_staged_file_by_file(tmp_path: Path) -> None:
    put(tmp_path, "model/config.json", "model/deep/weights.bin")
    planned = staged_files(config(parameters={"model": "model"}), tmp_path)
    assert [file.path for file in planned] == ["model/config.json", "model/deep/weights.bin"]


def test_st_03_all_parts_of_a_split_model_are_staged(tmp_path: Path) -> None:
    parts = [f"m-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    put(tmp_path, *parts)
    wanted = config(parameters={"model": parts[0]})
    assert [file.path for file in staged_files(wanted, tmp_path)] == parts
    (tmp_path / parts[1]).unlink()
    with pytest.raises(OperationFailed, match=parts[1]):
        staged_files(wanted, tmp_path)


def test_st_03_a_declared_file_that_is_nowhere_fails_with_its_cause_and_name(tmp_path: Path) -> None:
    with pytest.raises(OperationFailed) as caught:
        staged_files(config(parameters={"model": "main.bin"}), tmp_path)
    assert caught.value.cause == Cause.FILE_MISSING
    assert "main.bin" in caught.value.message


def test_links_to_another_disk_are_staged_as_the_files_they_lead_to(tmp_path: Path) -> None:
    models, disk = tmp_path / "models", tmp_path / "disk"
    models.mkdir()
    put(disk, "big.bin", "sub/part.bin")
    (models / "main.bin").symlink_to(disk / "big.bin")
    (models / "folder").symlink_to(disk / "sub")
    (disk / "sub" / "again").symlink_to(disk / "sub")
    found = staged_files(config(parameters={"model": "main.bin"}, mmproj="folder"), models)
    assert [(file.path, file.size) for file in found] == [("main.bin", 7), ("folder/part.bin", 12)]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nowhere", "is a link to nowhere, which cannot be reached"),
        ("main.bin", "is a link to main.bin, which cannot be reached"),
        ("..", "is a link to .., which contains the models folder"),
        (".", "is a link to ., which contains the models folder"),
        ("/dev/null", "is not a regular file"),
    ],
)
def test_a_link_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, target: str, reason: str) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "beside").write_text("no model")
    (models / "main.bin").symlink_to(target)
    with pytest.raises(OperationFailed) as caught:
        staged_files(config(parameters={"model": "main.bin"}), models)
    assert caught.value.cause == Cause.FILE_MISSING
    assert reason in caught.value.message
    assert str(models / "main.bin") in caught.value.message


def test_missing_downloads_are_named(tmp_path: Path) -> None:
    put(tmp_path, "here.bin")
    wanted = config(download_files=[download("here.bin"), download("sub/gone.bin")])
    assert [file.filename for file in missing_files(wanted, tmp_path)] == ["sub/gone.bin"]


def test_files_are_ready_once_they_are_there_and_their_digests_known(tmp_path: Path) -> None:
    wanted = config(parameters={"model": "main.bin"}, download_files=[download("main.bin")])
    digests = Digests()
    assert ready_files(wanted, tmp_path, digests) is None
    put(tmp_path, "main.bin")
    assert ready_files(wanted, tmp_path, digests) is None
    sha256 = digests.digest(tmp_path / "main.bin")
    (file,) = ready_files(wanted, tmp_path, digests) or ()
    assert (file.path, file.size, file.sha256) == ("main.bin", 8, sha256)


def test_a_file_that_is_not_what_was_promised_is_not_ready(tmp_path: Path) -> None:
    put(tmp_path, "main.bin")
    wanted = config(download_files=[download("main.bin", sha256="ab" * 32)])
    digests = Digests()
    digests.digest(tmp_path / "main.bin")
    assert ready_files(wanted, tmp_path, digests) is None


@pytest.mark.parametrize(
    ("model", "keys", "found"),
    [
        ("organisation/model-1.5b", {}, True),
        ("organisation/model", {"backend": "transformers"}, True),
        ("organisation/model", {"backend": "llama-cpp"}, False),
        ("organisation/model", {"backend": "llama"}, False),
        ("organisation/model", {"backend": "minilm"}, False),
        ("organisation/model.gguf", {}, False),
        ("organisation/model.SAFETENSORS", {}, False),
        ("organisation/sub/model", {}, False),
        ("model", {}, False),
        ("here/model", {}, False),
        ("organisation/model", {"download_files": [download("organisation/model/weights.bin")]}, False),
        ("organisation/model", {"download_files": [download("side.bin")]}, True),
    ],
)
def test_a_name_is_a_hub_id_only_if_nothing_suggests_a_file(
    tmp_path: Path, model: str, keys: dict[str, Any], found: bool
) -> None:
    (tmp_path / "here").mkdir()
    put(tmp_path, "side.bin")
    wanted = config(parameters={"model": model}, **keys)
    assert hub_id(wanted, tmp_path) == (model if found else None)
    if found:
        assert model not in [file.path for file in staged_files(wanted, tmp_path)]
    else:
        with pytest.raises(OperationFailed):
            staged_files(wanted, tmp_path)
