"""How do the calls of one request run side by side, and end together?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import Generic, TypeVar

import gevent

from web.client_watch import Watch

Item = TypeVar("Item")
T = TypeVar("T")


class SharedWatch:
    """The watch of one request for many calls: when its client leaves, or one of them fails, all are told."""

    def __init__(self) -> None:
        self._leavers: dict[object, Callable[[], None]] = {}
        self._gone = False

    @contextmanager
    def during(self, on_gone: Callable[[], None]) -> Iterator[None]:
        """Call `on_gone` once if it is over inside the block, or was before."""
        key = object()
        if self._gone:
            on_gone()
        else:
            self._leavers[key] = on_gone
        try:
            yield
        finally:
            self._leavers.pop(key, None)

    def leave(self) -> None:
        """Tell every call under way, and every later one."""
        self._gone = True
        leavers, self._leavers = self._leavers, {}
        for on_gone in leavers.values():
            on_gone()

    def close(self) -> None:
        """Nothing: the watch behind it belongs to the request and not to one call."""


def side_by_side(items: Sequence[Item], ask: Callable[[Item, Watch], T], watch: Watch, *, width: int) -> list[T]:
    """The answers for all items in their order, `width` of them under way at once.

    The first failure ends all calls and is raised; so does the end of the client (CallCancelled), and the end of this
    greenlet.
    """
    if len(items) == 1:
        return [ask(items[0], watch)]
    run = _Run(items, ask)
    with watch.during(run.shared.leave):
        # A greenlet begins without the values of its maker: what a call counts belongs to the request's account.
        workers = [gevent.spawn(copy_context().run, run.work) for _ in range(min(width, len(items)))]
        try:
            gevent.joinall(workers)
        finally:
            gevent.killall(workers)
    return run.answers()


class _Run(Generic[Item, T]):
    """The items of one request, taken by its greenlets in turn."""

    def __init__(self, items: Sequence[Item], ask: Callable[[Item, Watch], T]) -> None:
        self.shared = SharedWatch()
        self._ask, self._count = ask, len(items)
        self._left = iter(enumerate(items))
        self._answers: dict[int, T] = {}
        self._failure: Exception | None = None

    def work(self) -> None:
        for place, item in self._left:
            if self._failure is not None:
                return
            try:
                self._answers[place] = self._ask(item, self.shared)
            except Exception as error:  # noqa: BLE001  raised by the request's own greenlet
                # Later ones are its echo: calls that were cancelled because of it.
                self._failure = self._failure or error
                self.shared.leave()
                return

    def answers(self) -> list[T]:
        if self._failure is not None:
            raise self._failure
        return [self._answers[place] for place in range(self._count)]
