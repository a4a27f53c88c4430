"""How does the main thread sleep until a signal, an ended child or a time?"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from types import FrameType, TracebackType

#: A closed terminal ends the servers it started, unless the shell said otherwise (nohup ignores SIGHUP before us).
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SignalWait:
    """A context in which stop signals are noted and ended children wake a wait. For the main thread only."""

    def __init__(self) -> None:
        self.stop_asked = False
        self._read, self._write = -1, -1
        self._open = threading.Lock()  # a thread that wakes us late must not write to a number that is another file now
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> SignalWait:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in _STOP:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note_stop)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._note_nothing)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself returned
        signal.set_wakeup_fd(self._wakeup_before)
        with self._open:
            os.close(self._read)
            os.close(self._write)
            self._read, self._write = -1, -1

    def wait(self, limit_s: float) -> None:
        """Sleep until a signal, `wake` or the limit."""
        if select.select([self._read], [], [], max(0.0, limit_s))[0]:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._read, 512):
                    continue

    def wake(self) -> None:
        """End the current or the next wait. May be called from any thread."""
        with self._open, contextlib.suppress(BlockingIOError):
            if self._write >= 0:
                os.write(self._write, b"\0")

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_asked = True

    def _note_nothing(self, number: int, frame: FrameType | None) -> None:
        """Without a handler of its own a signal does not reach the wake-up pipe."""
