"""Limits of silence for calls to model processes, and the one thread of a process that ends calls over a limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from localai import logs
from localai.errors import LocalAIError

log = logs.get(__name__)

#: How late a limit may be noticed. Limits are minutes; a look at 200 calls takes 50 us.
TICK_S = 0.25
#: A process that stood still for longer gives its calls one more tick: their answers may wait in its buffers.
STOOD_STILL_S = 5.0


class Limited(Protocol):
    """A call under way with limits."""

    def overdue(self, now: float) -> LocalAIError | None:
        """Why the call is to be ended at this moment; None if it is within its limits."""

    def cancel(self, why: LocalAIError | None = None) -> None: ...


class LimitWatch:
    """Ends calls that are over a limit. One thread looks at all of them: a timer for each token would cost more."""

    def __init__(self, *, clock: Callable[[], float] = monotonic, tick_s: float = TICK_S) -> None:
        self.clock = clock
        self._tick_s = tick_s
        self._calls: set[Limited] = set()
        self._lock = threading.Lock()
        self._wake, self._stopping = threading.Event(), False
        self._thread: threading.Thread | None = None
        self._looked_at = clock()

    def add(self, call: Limited) -> None:
        """Watch a call until `remove`."""
        with self._lock:
            self._calls.add(call)
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="call-limits", daemon=True)
                self._thread.start()
        self._wake.set()

    def remove(self, call: Limited) -> None:
        """Watch a call no more. A second call does nothing."""
        with self._lock:
            self._calls.discard(call)

    def stop(self) -> None:
        """End the thread."""
        self._stopping = True
        self._wake.set()

    def look(self) -> None:
        """End every call that is over a limit."""
        now = self.clock()
        stood_still = now - self._looked_at > STOOD_STILL_S + self._tick_s
        self._looked_at = now
        if stood_still:
            return
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            if (why := call.overdue(now)) is not None:
                log.warning("a call is cancelled: %s", why.message)
                call.cancel(why)

    def _run(self) -> None:
        pause = threading.Event()
        while not self._stopping:
            if not self._calls:
                self._wake.clear()
                if not self._calls:  # one that was added meanwhile has set it before or sets it now
                    self._wake.wait()
                self._looked_at = self.clock()
            try:
                self.look()
            except Exception:  # Without this thread no call of the process would have a limit.
                log.exception("the limits of calls could not be judged")
            pause.wait(self._tick_s)
