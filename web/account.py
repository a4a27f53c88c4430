"""How much of an inference request's time was spent elsewhere, with which model, and how did it end?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from localai.clock import boottime

#: Outcomes of a request; the status of the answer does not tell all of them.
LOADING, FAILED, CANCELLED, REFUSED, OK = "loading", "failed", "cancelled", "refused", "ok"


class Account:
    """What one request leaves for `web.metrics`; the calls that `web.fan_out` makes for it share it."""

    __slots__ = ("_away", "_since", "at_first_token", "early", "elsewhere_s", "model", "node", "outcome")

    def __init__(self) -> None:
        #: Set once the model is known to have a config: a name that only a client knows never becomes a label.
        self.model = ""
        self.node = ""
        self.outcome: str | None = None
        #: The headers leave before the model is there; whoever sends the first token calls `at_first_token`.
        self.early = False
        self.at_first_token: Callable[[], None] = _nothing
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


def _nothing() -> None:
    """No first token comes late."""


def outcome_of(status: int) -> str:
    """How an answer of this status ended."""
    if status < 400:
        return OK
    if status >= 500:
        return FAILED
    return CANCELLED if status == 499 else REFUSED


_CURRENT: ContextVar[Account | None] = ContextVar("account", default=None)


def open_account() -> Account:
    """Begin the account of a request: the current one of this greenlet and of its copied contexts."""
    account = Account()
    _CURRENT.set(account)
    return account


def current_account() -> Account:
    """The account of the request under way; one that nobody reads outside of a request."""
    return _CURRENT.get() or Account()
