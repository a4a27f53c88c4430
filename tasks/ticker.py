"""Who starts the slow passes: one thread in each control process; the rows make sure that each pass runs once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from localai import logs
from localai.errors import StorageUnavailable
from localai.jobs.periodic import PgPeriodic

log = logs.get(__name__)

#: How often the ticker looks. The passes are minutes apart.
LOOK_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class Pass:
    """One slow pass and its interval in seconds."""

    interval_s: float
    run: Callable[[], object]


class Ticker:
    """The thread of the slow passes."""

    def __init__(self, rows: PgPeriodic, passes: Mapping[str, Pass], look_interval_s: float = LOOK_INTERVAL_S) -> None:
        self._rows, self._passes, self._look_interval_s = rows, passes, look_interval_s
        self._declared = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the thread after the pass that runs."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def tick(self) -> None:
        """Run what is due. A pass that fails is tried again after its interval."""
        if not self._declared:
            self._rows.declare({name: one.interval_s for name, one in self._passes.items()})
            self._declared = True
        for name in self._rows.take_due(sorted(self._passes)):
            try:
                self._passes[name].run()
            except Exception:
                log.exception("pass %s", name)

    def _run(self) -> None:
        while not self._stopping.wait(self._look_interval_s):
            try:
                self.tick()
            except StorageUnavailable as error:
                log.warning("slow passes not looked at: %s", error.message)
            except Exception:
                log.exception("ticker")
