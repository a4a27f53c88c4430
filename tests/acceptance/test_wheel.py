"""The wheel is built, installed into an environment of its own outside the source tree, started and asked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx2
import pytest

from tests.acceptance.cluster import Cluster, clean_environment

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
#: Everything that a build reads; a leftover `build` folder of the tree must not get into the wheel.
SOURCES = ("localai", "tasks", "web", "worker_agent", "protos", "migrations")
FILES = ("pyproject.toml", "setup.cfg", "README.md", "LICENSE", "constraints.txt")


def run(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=clean_environment() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources that is removed."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source, cwd=folder)
    shutil.rmtree(source)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def program(wheel: Path) -> Path:
    """The console script of a fresh environment with the wheel."""
    folder = wheel.parent
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv/bin/python"
    # Compiling every module takes longer than all else; the few that are imported are compiled then.
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    run(*pip, "-c", ROOT / "constraints.txt", f"{wheel}[embedded]", cwd=folder)
    for module in SOURCES:
        place = run(python, "-c", f"import {module}; print({module}.__path__[0])", cwd=folder).strip()
        assert Path(place).is_relative_to(folder / "venv")
    return folder / "venv/bin/localai"


@pytest.mark.long
def test_the_wheel_starts_and_answers_outside_the_source_tree(program: Path, cluster: Cluster) -> None:
    cluster.program = [str(program)]
    up = cluster.up()
    up.wait_for_nodes(1)
    cluster.model("steady", "fault")
    up.wait_for_model("steady")
    assert up.chat_until_answered("steady").status_code == 200

    with httpx2.Client(base_url=up.url, timeout=30) as browser:
        page = browser.get("/")
        assert page.status_code == 200 and "text/html" in page.headers["Content-Type"]
        linked = set(re.findall(r'"(/[^"]+[.](?:css|js)[^"]*)"', page.text))
        assert linked and {browser.get(path).status_code for path in linked} == {200}
    gallery = [model["id"] for model in up.get("/v1/models").json()["data"]]
    assert "smollm2-135m" in gallery, "the built-in gallery is in the wheel"
    assert up.process.stop() == 0


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for name in SOURCES
        for path in (ROOT / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert wanted - held == {"protos/backend-proto.json"}, "read by a test only"
