"""How a backend gets a virtual environment of its own, with the packages its lock file names by their hashes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from worker_agent.install import pip_settings
from worker_agent.install.commands import Commands, Errand
from worker_agent.processes.confinement import Access

#: Nothing but wheels, so that no code of a package runs, and nothing but the files that the lock names.
LOCKED = ("--require-hashes", "--no-deps", "--only-binary=:all:")


def make_environment(folder: Path, lock: Path, *, commands: Commands, errand: Errand) -> None:
    """Make ``folder``/venv. Raises OperationFailed, OperationStopped.

    The folder is renamed afterwards. ``venv/bin/python`` stands that: it finds its packages from where it lies. Console
    scripts do not, so run.sh calls the interpreter. The agent's own pip installs, which saves unpacking another one.
    """
    venv = folder / "venv"
    venv.mkdir(mode=0o700)
    access = Access(reads=(lock.parent,), writes=(venv,), installs=True)
    own_pip = importlib.util.find_spec("pip") is not None
    errand.said("making the environment")
    without = ["--without-pip"] if own_pip else []
    commands.run(
        [sys.executable, "-m", "venv", *without, str(venv)], folder=folder.parent, access=access, errand=errand
    )
    errand.said("installing packages")
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python")]
    if not own_pip:
        pip = [str(venv / "bin/python"), "-m", "pip"]
    options = ["--no-input", "--disable-pip-version-check", "--progress-bar=off", *LOCKED, "--requirement", str(lock)]
    commands.run(
        [*pip, "install", *options],
        folder=folder.parent,
        access=access,
        errand=errand,
        environ=pip_settings.environment(pip, commands.environ),
    )
