"""A backend that says, before it serves, what its process can reach; and an interpreter that other accounts can reach."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import sysconfig
from pathlib import Path

from localai.backends import catalogue
from localai.backends.layout import lay_out

#: Each path is tried for reading (a folder is listed), then a folder is tried for writing.
_SPY = """#!/bin/sh
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
exec "$LOCALAI_PYTHON" "$here/spy.py" "$@"
"""
_SPY_PY = """
import json, os, pathlib, signal, sys
here = pathlib.Path(__file__).parent
asked = json.loads((here / "asked.json").read_text())
def tried(action):
    try:
        action()
        return "yes"
    except OSError as error:
        return type(error).__name__
def read(path):
    os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)
def write(folder):
    path = pathlib.Path(folder, "written-by-a-model-process")
    path.write_text("x")
    path.unlink()
def to_stderr():
    with open("/dev/stderr", "a") as err:
        err.write("")
said = {
    "reads": {path: tried(lambda: read(path)) for path in asked["reads"]},
    "writes": {path: tried(lambda: write(path)) for path in [*asked["writes"], os.environ["TMPDIR"], os.environ["HOME"]]},
    "signals the agent": tried(lambda: os.kill(asked["agent"], 0)),
    "opens its stderr again": tried(to_stderr),
}
sys.stderr.write("SPY " + json.dumps(said) + "\\n")
sys.stderr.flush()
os.execv(sys.executable, [sys.executable, str(here / "backend.py"), *sys.argv[1:]])
"""


def lay_spy(folder: Path, asked: str) -> None:
    """A backend of a person's own, not of the gallery: it has no metadata."""
    folder.mkdir(parents=True, mode=0o755)
    lay_out(catalogue.find("fault", enable_fault=True), folder)
    (folder / "run.sh").write_text(_SPY)
    (folder / "spy.py").write_text(_SPY_PY)
    (folder / "asked.json").write_text(asked)
    for path in folder.iterdir():
        path.chmod(0o755)


def open_interpreter(folder: Path) -> tuple[str, dict[str, str]]:
    """An interpreter with our packages that every account can run, and the variables it needs.

    That of the tests may lie in a home that is closed to others.
    """
    home = Path(sys.base_prefix)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    skipped = shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "idlelib", "tkinter", "ensurepip")
    shutil.copytree(home / "lib" / name, folder / "lib" / name, copy_function=_link, ignore=skipped)
    for library in (home / "lib").glob("libpython*"):
        _link(library, folder / "lib" / library.name)
    (folder / "bin").mkdir()
    _link(home / "bin" / name, folder / "bin" / name)
    packages = folder / "lib" / name / "site-packages"
    packages.mkdir()
    (packages / "tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n{Path(__file__).parents[3]}\n")
    for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        path.chmod(0o755)
    return str(folder / "bin" / name), {"LD_LIBRARY_PATH": str(folder / "lib")}


def _link(source: str | Path, target: str | Path) -> str | Path:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def closed_above(path: Path) -> Path | None:
    """The first folder on the way to a path that other accounts cannot pass."""
    return next((part for part in reversed(path.resolve().parents) if not part.stat().st_mode & stat.S_IXOTH), None)
