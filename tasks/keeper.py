"""Who renews the leases of this process: one thread, one statement for all jobs, every quarter of a lease."""

from __future__ import annotations

import threading

from localai import logs
from localai.errors import StorageUnavailable
from localai.jobs.owner import Owner

log = logs.get(__name__)


class Signals:
    """Named points of the keeper; they do nothing in production, and a test may wait at them."""

    def renewed(self) -> None:
        """One round is over, whatever its outcome."""


class Keeper:
    """The thread that keeps what this process owns. A step that renewed its own lease would be a fault."""

    def __init__(self, owner: Owner, interval_s: float, signals: Signals | None = None) -> None:
        self._owner, self._interval_s, self._signals = owner, interval_s, signals or Signals()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """End the thread. Leases that are still held lapse by themselves."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def renew_once(self) -> None:
        """One round. A database that does not answer costs a round, and after a whole lease the jobs."""
        try:
            self._owner.renew()
        except StorageUnavailable as error:
            log.warning("leases not renewed: %s", error.message)
        except Exception:
            log.exception("renewing leases")
        self._signals.renewed()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            self.renew_once()
