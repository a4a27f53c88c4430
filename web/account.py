"""How much of an inference request's time was spent elsewhere, with which model, and how did it end?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from localai.clock import boottime

#: Outcomes that the status of the answer does not tell.
LOADING, FAILED, CANCELLED, OK = "loading", "failed", "cancelled", "ok"


class Account:
    """What one request leaves for `web.metrics`; the calls that `web.fan_out` makes for it share it."""

    __slots__ = ("_away", "_since", "elsewhere_s", "model", "node", "outcome")

    def __init__(self) -> None:
        #: Set once the model is known to have a config: a name that only a client knows never becomes a label.
        self.model = ""
        self.node = ""
        self.outcome: str | None = None
        #: With a model process, or waiting for a load. Calls side by side count once.
        self.elsewhere_s = 0.0
        self._away, self._since = 0, 0.0

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """The time inside the block is not the frontend's own."""
        if self._away == 0:
            self._since = boottime()
        self._away += 1
        try:
            yield
        finally:
            self._away -= 1
            if self._away == 0:
                self.elsewhere_s += boottime() - self._since


_CURRENT: ContextVar[Account | None] = ContextVar("account", default=None)


def open_account() -> Account:
    """Begin the account of a request: the current one of this greenlet and of its copied contexts."""
    account = Account()
    _CURRENT.set(account)
    return account


def current_account() -> Account:
    """The account of the request under way; one that nobody reads outside of a request."""
    return _CURRENT.get() or Account()
