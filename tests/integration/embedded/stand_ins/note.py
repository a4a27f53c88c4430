"""What a stand-in leaves for the test: its environment at each start, and the signal that ended it."""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType


def started(name: str) -> None:
    folder = Path(os.environ["STAND_IN_FOLDER"])
    values = {key: value for key, value in os.environ.items() if key.startswith(("LOCALAI_", "API_KEY"))}
    with (folder / f"{name}.starts").open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), "cwd": str(Path.cwd()), "argv": sys.argv, **values}) + "\n")

    def end(number: int, frame: FrameType | None) -> None:
        with (folder / "ended").open("a") as file:
            file.write(f"{name} {signal.Signals(number).name}\n")
        os._exit(0)

    for number in (signal.SIGTERM, signal.SIGQUIT):
        signal.signal(number, end)
