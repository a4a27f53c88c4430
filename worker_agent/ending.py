"""Why the agent ends, and what its exit code says about it."""

from __future__ import annotations

import signal
import threading
from enum import StrEnum

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
        """Take SIGTERM and SIGINT. Call it on the main thread."""

        def on_signal(number: int, _frame: object) -> None:
            # A handler runs between two steps of the main thread, which may hold the very locks that `ask` takes.
            name = signal.Signals(number).name
            threading.Thread(target=self.ask, args=(Why.SIGNAL, name), name="ending", daemon=True).start()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, on_signal)
