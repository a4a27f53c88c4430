"""Children that stand in for real ones: small programs that say what happens to them."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from localai.embedded.children import Child

#: Says that it runs, then waits for a signal. `{name}` is a file that each start adds its pid to.
WAITS = """
import os, signal, sys
def end(number, frame):
    with open(sys.argv[1] + ".ended", "a") as file:
        file.write(f"{os.path.basename(sys.argv[1])} {signal.Signals(number).name}\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
signal.signal(signal.SIGINT, end)
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
while True:
    signal.pause()
"""


def program(name: str, code: str, folder: Path, **changes: Any) -> Child:
    """A child that runs Python code with the path of its own file as argument."""
    argv = (sys.executable, "-S", "-c", code, str(folder / name))
    values: dict[str, Any] = {
        "env": dict(os.environ),
        "cwd": Path(tempfile.gettempdir()),
        "log": folder / f"{name}.log",
    }
    return Child(name=name, argv=argv, **{**values, **changes})


def waiting(name: str, folder: Path, **changes: Any) -> Child:
    """A child that is ready once it wrote its pid, and ends on SIGTERM or SIGINT."""
    return program(name, WAITS, folder, **{"ready": lambda: bool(pids(folder, name)), **changes})


def pids(folder: Path, name: str) -> list[int]:
    """The pid of each start of a child so far."""
    try:
        return [int(line) for line in (folder / name).read_text().splitlines()]
    except FileNotFoundError:
        return []


def ended(folder: Path, name: str) -> list[str]:
    """What told a child to end, in order."""
    path = folder / f"{name}.ended"
    return path.read_text().splitlines() if path.exists() else []
