"""Threads that do one thing at an interval until the agent ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from localai import logs

log = logs.get(__name__)


class Ticker:
    """Calls ``tick`` every ``interval_s`` on a thread of its own. What a tick raises is logged, the next one comes."""

    def __init__(self, name: str, interval_s: float, tick: Callable[[], object]) -> None:
        self._name = name
        self._interval_s = interval_s
        self._tick = tick
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No further tick begins."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self._tick()
            except Exception:
                log.exception("a tick failed", extra=logs.fields(ticker=self._name))
