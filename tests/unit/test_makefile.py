"""Which packages each command of the Makefile installs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.unit, pytest.mark.skipif(shutil.which("make") is None, reason="needs make")]


def installs(target: str, venv: Path) -> list[str]:
    """What ``make TARGET`` would install into this environment, in pip's words."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", target, f"VENV={venv}"]
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [line.rpartition(" ")[2] for line in done.stdout.splitlines() if "pip install" in line]


def touch(venv: Path, stamp: str) -> None:
    venv.mkdir(exist_ok=True)
    (venv / stamp).touch()


def test_running_installs_what_running_needs(tmp_path: Path) -> None:
    assert installs("run", tmp_path / "venv") == ["'.[embedded]'"]


@pytest.mark.parametrize("target", ["setup", "unit", "check", "sim"])
def test_tests_and_checks_install_the_tools_too(tmp_path: Path, target: str) -> None:
    assert installs(target, tmp_path / "venv") == ["'.[embedded,dev]'"]


def test_the_tools_are_added_to_an_environment_that_runs(tmp_path: Path) -> None:
    touch(tmp_path, ".ready-run")
    assert installs("run", tmp_path) == []
    assert installs("unit", tmp_path) == ["'.[embedded,dev]'"]


def test_an_environment_with_the_tools_also_runs(tmp_path: Path) -> None:
    touch(tmp_path, ".ready-run")
    touch(tmp_path, ".ready-dev")
    assert installs("run", tmp_path) == installs("unit", tmp_path) == []
