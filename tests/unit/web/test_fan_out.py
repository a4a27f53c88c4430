"""The calls of one request run side by side, and end together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import gevent
import gevent.event
import gevent.lock
import pytest

from localai.errors import BackendError, CallCancelled
from web.client_watch import Watch
from web.fan_out import side_by_side

pytestmark = pytest.mark.unit


class Client:
    """A watch whose client leaves when the test says so."""

    def __init__(self) -> None:
        self._on_gone: Callable[[], None] = lambda: None

    @contextmanager
    def during(self, on_gone: Callable[[], None]) -> Iterator[None]:
        self._on_gone = on_gone
        yield

    def leave(self) -> None:
        self._on_gone()

    def close(self) -> None: ...


class Calls:
    """Calls that last until they are let go, and know how many of them are under way."""

    def __init__(self, width: int) -> None:
        self.width, self.full = width, gevent.event.Event()
        self.under_way = self.most = 0
        self.asked: list[int] = []
        self.go = gevent.event.Event()
        self.failing: set[int] = set()

    def ask(self, item: int, watch: Watch) -> int:
        self.asked.append(item)
        gone = gevent.event.Event()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if self.under_way == self.width:
            self.full.set()
        try:
            with watch.during(gone.set):
                gevent.wait([self.go, gone], count=1)
            if gone.is_set():
                raise CallCancelled
            if item in self.failing:
                raise BackendError(f"{item} broke")
            return item * 10
        finally:
            self.under_way -= 1


def started(calls: Calls, client: Client) -> gevent.Greenlet:
    """A request with twenty items, as many of them under way as may be."""
    greenlet = gevent.spawn(lambda: side_by_side(range(20), calls.ask, client, width=calls.width))
    assert calls.full.wait(30)
    return greenlet


def test_answers_come_in_order_and_no_more_than_the_width_run_at_once() -> None:
    calls = Calls(4)
    greenlet = started(calls, Client())
    assert calls.under_way == 4
    calls.go.set()
    assert greenlet.get(timeout=30) == [item * 10 for item in range(20)]
    assert calls.most == 4


def test_the_first_failure_ends_all_and_is_raised() -> None:
    calls = Calls(4)
    calls.failing = {1}
    greenlet = started(calls, Client())
    calls.go.set()
    with pytest.raises(BackendError, match="1 broke"):
        greenlet.get(timeout=30)
    assert calls.under_way == 0
    assert len(calls.asked) < 20


def test_pm_06_a_client_that_leaves_ends_every_call() -> None:
    calls, client = Calls(4), Client()
    greenlet = started(calls, client)
    client.leave()
    with pytest.raises(CallCancelled):
        greenlet.get(timeout=30)
    assert (calls.under_way, len(calls.asked)) == (0, 4)


def test_the_end_of_the_request_s_own_greenlet_ends_every_call() -> None:
    calls = Calls(4)
    greenlet = started(calls, Client())
    greenlet.kill(timeout=30)
    assert (calls.under_way, len(calls.asked)) == (0, 4)


def test_one_item_needs_no_greenlet_and_has_the_request_s_own_watch() -> None:
    seen: list[Watch] = []

    def ask(item: str, watch: Watch) -> str:
        seen.append(watch)
        return item

    client = Client()
    assert side_by_side(["a"], ask, client, width=4) == ["a"]
    assert seen == [client]


def test_what_calls_count_belongs_to_the_request() -> None:
    counted: ContextVar[list[int]] = ContextVar("counted")
    counted.set([])
    side_by_side(range(5), lambda item, _: counted.get().append(item), Client(), width=2)
    assert sorted(counted.get()) == list(range(5))
