"""How a node answers several questions at once without starting threads without end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from localai.bus.counters import BusCounters
from localai.bus.delivery import Call, Delivery
from localai.bus.exchange import answered
from localai.bus.ports import Payload, Responder

#: Questions answered at the same time. Far above what a healthy node meets; stuck responders must not eat the memory.
AT_ONCE = 64
#: Questions that wait for a free place; the oldest goes first, for nobody waits for its answer any more.
WAITING_LIMIT = 1000


class Responders:
    """Starts each question on a thread or greenlet of its own. Everything but the answering runs on the bus thread.

    A question that finds no place in time is not refused: the caller sees a quiet node, of which nothing is known.
    """

    def __init__(self, delivery: Delivery, counters: BusCounters, call: Callable[[Call], None]) -> None:
        self._delivery = delivery
        self._counters = counters
        self._call = call
        self._waiting: deque[Call] = deque(maxlen=WAITING_LIMIT)
        self._running = 0

    def take(self, responder: Responder, payload: Payload, reply: Callable[[bytes], None]) -> None:
        """Have a question answered, and the bytes of the answer handed to ``reply``."""
        self._waiting.append(partial(self._answer, responder, payload, reply))
        self._start()

    def _start(self) -> None:
        while self._waiting and self._running < AT_ONCE:
            self._running += 1
            self._delivery.spawn(self._waiting.popleft())

    def _answer(self, responder: Responder, payload: Payload, reply: Callable[[bytes], None]) -> None:
        try:
            reply(answered(responder, payload, self._counters))
        finally:
            self._call(self._ended)

    def _ended(self) -> None:
        self._running -= 1
        self._start()
