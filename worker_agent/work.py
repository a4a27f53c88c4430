"""How the thread of one operation waits, and how it learns that it must stop."""

from __future__ import annotations

import threading
from collections.abc import Callable


class OperationStopped(Exception):
    """The operation was doomed: its thread unwinds, whatever it was doing."""


class Work:
    """What the thread of an operation waits on. Any thread may stop or nudge it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """Make every wait of the operation's thread raise OperationStopped."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()

    def nudge(self) -> None:
        """Something changed: the thread looks at its predicate again."""
        with self._condition:
            self._condition.notify_all()

    def check(self) -> None:
        """Raise OperationStopped when the operation is to end."""
        if self._stopped:
            raise OperationStopped

    def wait_for(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until ``predicate`` holds; False after ``timeout_s``. Raises OperationStopped."""
        with self._condition:
            held = self._condition.wait_for(lambda: self._stopped or predicate(), timeout_s)
            if self._stopped:
                raise OperationStopped
            return held

    def pause(self, seconds: float) -> None:
        """Wait that long. Raises OperationStopped as soon as the operation is to end."""
        self.wait_for(lambda: False, seconds)
