"""How a backend gets a virtual environment of its own, with the packages its requirements pin."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from worker_agent.install.commands import Commands, Errand


def make_environment(folder: Path, requirements: Path, *, commands: Commands, errand: Errand) -> None:
    """Make ``folder``/venv. Raises OperationFailed, OperationStopped.

    The folder is renamed afterwards. ``venv/bin/python`` stands that: it finds its packages from where it lies. Console
    scripts do not, so run.sh calls the interpreter. The agent's own pip installs, which saves unpacking another one.
    """

    def run(*argv: str) -> None:
        commands.run(argv, folder=folder.parent, errand=errand)

    venv = folder / "venv"
    own_pip = importlib.util.find_spec("pip") is not None
    errand.said("making the environment")
    run(sys.executable, "-m", "venv", *(["--without-pip"] if own_pip else []), str(venv))
    errand.said("installing packages")
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python")]
    if not own_pip:
        pip = [str(venv / "bin/python"), "-m", "pip"]
    run(
        *pip,
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar=off",
        "--requirement",
        str(requirements),
    )
