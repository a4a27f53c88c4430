"""What does the supervisor know of one running child, and how does it start, look at and end it?"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localai import log_files
from localai.embedded import exec_step
from localai.embedded.children import Child
from localai.lines import lines_of

#: A log above this size is cut to its end. It is looked at every few seconds, so it is documented as 16 MiB at most.
LOG_LIMIT_BYTES = 12 * 1024 * 1024
#: How much of the end is kept then.
LOG_KEPT_BYTES = 4 * 1024 * 1024
#: How much of a log is looked at for its last lines.
_TAIL_BYTES = 8192


@dataclass(slots=True)
class Process:
    """A child and its current process, if it has one."""

    child: Child
    first_start: float  # when the supervisor took it on
    started: float = 0.0  # start of the current process
    popen: subprocess.Popen[bytes] | None = None
    failures: int = 0
    ready: bool = False
    again_at: float | None = None
    data_set_aside: bool = False  # since it last ran for long

    def start(self, now: float) -> None:
        """Start it. Raises OSError, StartRefused, and RuntimeError outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("children are started from the main thread: their parent-death signal is bound to it")
        child = self.child
        child.before_start()
        self.started, self.again_at = now, None
        command = exec_step.command(child.argv, death_signal=child.parent_death_signal, account=child.account)
        log = open_log(child.log) if child.log else None
        try:
            self.popen = subprocess.Popen(
                command,
                env=dict(child.env),
                cwd=child.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT if log is not None else None,
                start_new_session=True,
            )
        finally:
            if log is not None:
                os.close(log)

    def has_ended(self) -> bool:
        """Whether the process has ended. It keeps its pid until `collect`."""
        if self.popen is None:
            return False
        if not hasattr(os, "waitid"):
            return self.popen.poll() is not None
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def collect(self) -> int:
        """End what is left of the group of an ended process, reap it, and return its exit code."""
        assert self.popen is not None
        # The dead leader still holds its pid, so the number cannot mean somebody else's group.
        self.kill_group()
        code = self.popen.wait()
        self.popen = None
        return code

    def ask_to_stop(self) -> None:
        """Send the stop signal."""
        if self.popen is not None:
            self.popen.send_signal(self.child.stop_signal)

    def kill_group(self) -> None:
        """Kill the process and all in its group."""
        if self.popen is not None and self.popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.popen.pid, signal.SIGKILL)


def open_log(path: Path) -> int:
    """A descriptor that appends to a log file, which is trimmed first."""
    trim_log(path)
    with suppress(OSError):  # a copy that an earlier version put aside has no bound
        path.with_name(path.name + ".1").unlink()
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def trim_log(path: Path) -> None:
    """Cut the log of a child, which may be writing it, if it has grown too large. Never raises."""
    log_files.trim(path, limit_bytes=LOG_LIMIT_BYTES, kept_bytes=LOG_KEPT_BYTES)


def last_lines(path: Path | None, count: int) -> list[str]:
    """The last lines of a log file."""
    if path is None:
        return []
    try:
        text = log_files.end_of(path, _TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return list(deque((line for line in lines_of(text) if line.strip()), maxlen=count))


def describe_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"
