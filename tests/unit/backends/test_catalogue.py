"""Names lead to backends, and an entry becomes a folder that any agent can start."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from localai.backends import catalogue, layout
from localai.backends.platform_rules import Platform
from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause

pytestmark = pytest.mark.unit


def test_fault_backends_are_listed_only_where_they_are_enabled() -> None:
    assert [entry.name for entry in catalogue.entries(enable_fault=False)] == ["llama-cpp", "minilm"]
    assert [entry.name for entry in catalogue.entries(enable_fault=True)][2:] == ["fault", "fault-slow"]


def test_an_unknown_backend_fails_with_its_cause_and_the_known_names() -> None:
    with pytest.raises(OperationFailed) as caught:
        catalogue.find("fault", enable_fault=False)
    assert caught.value.cause == Cause.BACKEND_UNKNOWN
    assert "known are llama-cpp, minilm" in caught.value.message


@pytest.mark.parametrize("name", ["llama", "go-llama", "LLAMA", "llama-cpp"])
def test_engine_aliases_lead_to_the_backend(name: str) -> None:
    assert catalogue.find(name, enable_fault=False).name == "llama-cpp"


def test_a_machine_without_a_build_fails_with_its_cause() -> None:
    entry = catalogue.find("llama-cpp", enable_fault=False)
    with pytest.raises(OperationFailed) as caught:
        catalogue.check_machine(entry, Platform("linux", "x86_64"))
    assert caught.value.cause == Cause.BACKEND_UNAVAILABLE
    assert "llama-cpp" in caught.value.message
    catalogue.check_machine(entry, Platform("linux", "x86_64", (2, 36)))


@pytest.mark.parametrize("machine", [Platform("linux", "x86_64", (2, 27)), Platform("darwin", "x86_64")])
def test_minilm_says_which_machines_its_engine_is_built_for(machine: Platform) -> None:
    with pytest.raises(OperationFailed) as caught:
        catalogue.check_machine(catalogue.find("minilm", enable_fault=False), machine)
    assert caught.value.cause == Cause.BACKEND_UNAVAILABLE
    assert "glibc 2.28" in caught.value.message or "darwin arm64" in caught.value.message


@pytest.mark.parametrize("entry", catalogue.entries(enable_fault=True), ids=lambda entry: entry.name)
def test_a_laid_out_folder_is_complete_and_imports_nothing_of_ours(entry: catalogue.Entry, tmp_path: Path) -> None:
    layout.lay_out(entry, tmp_path)
    assert os.access(tmp_path / "run.sh", os.X_OK)
    modules = {path.stem for path in tmp_path.glob("*.py")}
    assert {"backend", "backend_pb2", "backend_pb2_grpc", "serving"} <= modules
    for path in tmp_path.glob("*.py"):
        roots = {name.partition(".")[0] for name in _imported(path)}
        assert not roots & {"localai", "protos", "tasks", "worker_agent", "web"}, path.name


def test_a_version_changes_with_any_file_an_install_copies(tmp_path: Path) -> None:
    (tmp_path / "backend.py").write_text("one")
    first = catalogue.content_version(tmp_path)
    (tmp_path / "backend.py").write_text("two")
    catalogue.content_version.cache_clear()
    assert catalogue.content_version(tmp_path) != first


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("name", ["llama-cpp", "minilm"])
def test_own_environments_are_pinned_exactly(name: str) -> None:
    requirements = catalogue.find(name, enable_fault=False).requirements
    assert requirements is not None
    lines = [
        line for line in requirements.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")
    ]
    assert lines
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9.]+", line) for line in lines)


def test_a_backend_that_the_gallery_does_not_know_is_left_to_the_node() -> None:
    assert catalogue.name_for_node("llama", enable_fault=False) == "llama-cpp"
    assert catalogue.name_for_node("of-my-own", enable_fault=False) == "of-my-own"
    with pytest.raises(OperationFailed, match="no backend is named 'fault'"):
        catalogue.name_for_node("fault", enable_fault=False)
