"""Failed logins of one web process: after ten in a minute more are refused for a while, right or wrong.

The bound of an address counts its own failures. The account has a bound too, over all addresses, which must not lock
its owner out: above it an address that has not failed itself within the minute is still heard once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable

from flask import Flask, current_app

from localai.clock import boottime
from localai.errors import TooManyLogins

FAILURES, WINDOW_S = 10, 60.0
#: Addresses that are remembered; the one that failed longest ago is forgotten first.
_ADDRESSES = 10_000
_NAME = "localai.attempts"


class Attempts:
    """Failures by address and of the account. Safe for threads."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._addresses: OrderedDict[str, deque[float]] = OrderedDict()
        self._account: deque[float] = deque(maxlen=FAILURES)

    def check(self, address: str) -> None:
        """Called before a key is looked at. Raises TooManyLogins."""
        now = self._clock()
        with self._lock:
            own = self._addresses.get(address, ())
            wait = _wait_s(own, now)
            if wait is None and own and now - own[-1] < WINDOW_S:
                wait = _wait_s(self._account, now)
        if wait is not None:
            raise TooManyLogins(wait)

    def failed(self, address: str) -> None:
        """A key was wrong."""
        now = self._clock()
        with self._lock:
            own = self._addresses.pop(address, None) or deque(maxlen=FAILURES)
            own.append(now)
            self._addresses[address] = own
            self._account.append(now)
            while len(self._addresses) > _ADDRESSES:
                self._addresses.popitem(last=False)


def _wait_s(failures: deque[float] | tuple[()], now: float) -> float | None:
    """How long until fewer than the bound lie within the window; None if that is so now."""
    if len(failures) < FAILURES:
        return None
    left = failures[0] + WINDOW_S - now
    return left if left > 0 else None


def install(app: Flask, attempts: Attempts) -> None:
    """Make these the attempts of an app."""
    app.extensions[_NAME] = attempts


def attempts() -> Attempts:
    """The attempts of the request under way."""
    found = current_app.extensions[_NAME]
    assert isinstance(found, Attempts)
    return found
