"""Why the agent ends, and what its exit code says about it."""

from __future__ import annotations

import os
import signal
import threading
from enum import StrEnum
from types import FrameType

from localai import logs

log = logs.get(__name__)

#: A setting, the folder, the port or the registration token cannot be used.
EXIT_REFUSED = 2
#: A newer incarnation of this node is registered, or its credential is not accepted any more.
EXIT_REPLACED = 3
#: Something that this agent started did not end.
EXIT_LEFT_BEHIND = 4
#: An administrator removed this node. A worker that is started again joins as a new one.
EXIT_REMOVED = 5


class Why(StrEnum):
    """The reasons for an end."""

    SIGNAL = "signal"
    REPLACED = "replaced"
    REMOVED = "removed"
    UNKNOWN = "unknown"  # no frontend knows the node any more: begin again as a new incarnation


class Ending:
    """The one request to end; the first reason counts."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._lock = threading.Lock()
        self._why: Why | None = None

    @property
    def why(self) -> Why | None:
        return self._why

    def ask(self, why: Why, text: str) -> None:
        """End the agent."""
        with self._lock:
            if self._why is not None:
                return
            self._why = why
        log.info("ending", extra=logs.fields(why=why.value, reason=text))
        self.asked.set()

    def on_signals(self) -> None:
        """Take SIGTERM and SIGINT. Call it on the main thread.

        They are read from a pipe by a thread. A handler would run in the main thread only, which sleeps on where
        another thread got the signal (the usual case after a pause), and which may hold the locks of `ask`.
        """
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _note_nothing)
        threading.Thread(target=self._read_signals, args=(read,), name="ending", daemon=True).start()

    def _read_signals(self, pipe: int) -> None:
        while True:
            for number in os.read(pipe, 64):
                self.ask(Why.SIGNAL, signal.Signals(number).name)


def _note_nothing(number: int, frame: FrameType | None) -> None:
    """Without a handler of its own a signal does not reach the pipe."""
