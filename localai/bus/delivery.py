"""Where the handlers of a process run, and how its threads or greenlets wait for the bus thread.

The bus thread itself never runs a handler, a log call or anything that takes a lock of the process: it only leaves
calls here. A process of plain threads takes :class:`ThreadDelivery`, one patched by gevent takes :class:`HubDelivery`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Call = Callable[[], object]

log = logging.getLogger(__name__)

#: Calls that may wait. Events are hints, so what does not fit is dropped and made good by one resync.
MAILBOX_LIMIT = 10_000


class Signal(Protocol):
    """Set once by any thread, waited for by one caller of this process."""

    def set(self) -> None: ...

    def wait(self, timeout_s: float) -> bool:
        """Whether it was set within the limit. Other threads and greenlets of the process go on meanwhile."""


class Delivery(Protocol):
    """One place of a process where posted calls run, one at a time and in order."""

    def post(self, call: Call, *, always: bool = False) -> bool:
        """Leave a call, from any thread, without waiting; ``always`` goes in whatever the limit. False = no room."""

    def spawn(self, call: Call) -> None:
        """Run a call beside the posted ones, on a thread or greenlet of its own."""

    def signal(self) -> Signal:
        """What a caller waits on until the bus thread has its answer."""

    def start_native(self, run: Call) -> None:
        """Run ``run`` on a real thread of the operating system, whatever this process has patched."""

    def close(self) -> None:
        """Run what is posted so far, then nothing any more. Bounded."""


class ThreadDelivery:
    """Delivery of a process of plain threads: one thread runs the handlers."""

    def __init__(self, *, limit: int = MAILBOX_LIMIT) -> None:
        if _patched_by_gevent():
            raise RuntimeError("threads are patched by gevent here: use HubDelivery")
        self._limit = limit
        self._mail: SimpleQueue[Call | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="bus-delivery", daemon=True)
        self._thread.start()

    def post(self, call: Call, *, always: bool = False) -> bool:
        if not always and self._mail.qsize() >= self._limit:
            return False
        self._mail.put(call)
        return True

    def spawn(self, call: Call) -> None:
        threading.Thread(target=_guarded, args=(call,), name="bus-responder", daemon=True).start()

    def signal(self) -> Signal:
        return _ThreadSignal()

    def start_native(self, run: Call) -> None:
        threading.Thread(target=run, name="bus", daemon=True).start()

    def close(self) -> None:
        self._mail.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _run(self) -> None:
        while (call := self._mail.get()) is not None:
            _guarded(call)


class _ThreadSignal:
    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def wait(self, timeout_s: float) -> bool:
        return self._event.wait(timeout_s)


class HubDelivery:
    """Delivery of a gevent process: one greenlet runs the handlers. Belongs to the hub of the thread that made it.

    Anything from another thread comes through one deque and one watcher of the hub, drained in a batch. Signals are set
    in the hub itself: a handler that waits for an answer does not hold up that very answer.
    """

    def __init__(self, *, limit: int = MAILBOX_LIMIT) -> None:
        import gevent
        import gevent.event

        self._limit = limit
        self._gevent = gevent
        self._caught = (Exception, gevent.Timeout)  # gevent's Timeout is no Exception
        self._to_hub: deque[Call] = deque()
        self._watcher = gevent.get_hub().loop.async_()
        self._watcher.start(self._drain)
        self._mail: deque[Call] = deque()
        self._closing = False
        self._work = gevent.event.Event()
        self._greenlet = gevent.spawn(self._run)

    def post(self, call: Call, *, always: bool = False) -> bool:
        if not always and len(self._mail) + len(self._to_hub) >= self._limit:
            return False
        self.in_hub(lambda: self._put(call))
        return True

    def spawn(self, call: Call) -> None:
        self.in_hub(lambda: self._gevent.spawn(_guarded, call, self._caught))

    def signal(self) -> Signal:
        return _HubSignal(self)

    def start_native(self, run: Call) -> None:
        from gevent import monkey

        start_new_thread = monkey.get_original("_thread", "start_new_thread")
        start_new_thread(run, ())

    def close(self) -> None:
        self._drain()
        self._closing = True
        self._work.set()
        if self._gevent.getcurrent() is not self._greenlet:
            self._greenlet.join(5)
        # Stopped and not closed: the bus thread may still send to it, which is harmless as long as it exists.
        self._watcher.stop()

    def in_hub(self, call: Call) -> None:
        """Run a call that never waits in the hub, from any thread."""
        self._to_hub.append(call)
        self._watcher.send()

    def _drain(self) -> None:
        while self._to_hub:
            self._to_hub.popleft()()

    def _put(self, call: Call) -> None:
        self._mail.append(call)
        self._work.set()

    def _run(self) -> None:
        while True:
            while self._mail:
                _guarded(self._mail.popleft(), self._caught)
            if self._closing:
                return
            self._work.clear()
            self._work.wait()


class _HubSignal:
    def __init__(self, delivery: HubDelivery) -> None:
        from gevent.event import Event

        self._delivery = delivery
        self._event = Event()

    def set(self) -> None:
        self._delivery.in_hub(self._event.set)

    def wait(self, timeout_s: float) -> bool:
        return bool(self._event.wait(timeout_s))


def delivery_of_this_process() -> Delivery:
    """The delivery that fits how this process runs. Call it after the fork, on the thread that serves."""
    return HubDelivery() if _patched_by_gevent() else ThreadDelivery()


def _patched_by_gevent() -> bool:
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and bool(monkey.is_module_patched("threading"))


def _guarded(call: Call, caught: tuple[type[BaseException], ...] = (Exception,)) -> None:
    """Run a call; what it raises is logged and goes no further."""
    try:
        call()
    except caught:
        log.exception("a handler of the bus failed")
