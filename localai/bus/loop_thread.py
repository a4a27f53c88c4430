"""How work of a process reaches the asyncio loop of its bus thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from localai.bus.delivery import Delivery


class LoopThread:
    """One native thread with an event loop of its own, which runs ``main`` to its end.

    ``call`` may be used from any thread and greenlet. It costs one append and, when the loop is not awake already, one
    ``call_soon_threadsafe``; it takes no lock, so it can never hold up a gevent hub.
    """

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]], delivery: Delivery) -> None:
        self._main = main
        self._calls: deque[Callable[[], object]] = deque()
        self._awake = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._delivery = delivery
        self._ended = delivery.signal()

    def start(self) -> None:
        """Start the thread. Calls made before run as soon as there is a loop."""
        self._delivery.start_native(self._run)

    def call(self, call: Callable[[], object]) -> None:
        """Run ``call`` on the loop soon, in the order of the calls. After the end of the loop nothing happens."""
        self._calls.append(call)
        loop = self._loop
        if loop is None or self._awake:
            return
        self._awake = True
        try:
            loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # The loop has ended.
            self._calls.clear()

    def join(self, timeout_s: float) -> bool:
        """Whether the thread ended within the limit."""
        return self._ended.wait(timeout_s)

    def _drain(self) -> None:
        # The flag falls before the deque is read: whoever appends from here on wakes the loop again.
        self._awake = False
        while self._calls:
            self._calls.popleft()()

    def _run(self) -> None:
        loop = _new_loop()
        try:
            self._loop = loop
            loop.call_soon(self._drain)
            loop.run_until_complete(self._main())
            loop.run_until_complete(_cancel_the_rest())
        finally:
            self._loop = None
            loop.close()
            self._ended.set()


async def _cancel_the_rest() -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=1)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
