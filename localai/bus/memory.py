"""Events, the node link and the agent's end of it inside one process, for tests and for parts that run together."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from localai.bus.counters import BusCounters
from localai.bus.delivery import Call, Delivery
from localai.bus.envelopes import decode, encode
from localai.bus.exchange import answer_of, answered
from localai.bus.ports import Handler, Payload, Responder
from localai.bus.subjects import matches, node_operation
from localai.errors import NodeQuiet, NodeUnreachable, NoRoute

log = logging.getLogger(__name__)


class MemoryBus:
    """A whole bus: everybody who is to talk to each other shares the value.

    Without a ``delivery`` a handler has run when ``publish`` returns, which makes tests deterministic; an event that a
    handler publishes is delivered after that handler. ``disconnect`` and ``reconnect`` play an outage.
    """

    def __init__(self, *, delivery: Delivery | None = None) -> None:
        self._delivery = delivery
        self._lock = threading.Lock()
        self._handlers: list[tuple[str, Handler]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._responders: dict[str, Responder] = {}
        self._connected = True
        self._mail: deque[Call] = deque()
        self._delivering = False
        self.counters = BusCounters(connects=1)

    def publish(self, subject: str, payload: Payload) -> None:
        data = encode(payload)
        self.counters.published += 1
        if not self._connected:
            self.counters.dropped += 1
            return
        for pattern, handler in list(self._handlers):
            if matches(pattern, subject):
                self._post(partial(self._handle, pattern, handler, subject, data))

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        entry = (pattern, handler)
        self._handlers.append(entry)

        def end() -> None:
            if entry in self._handlers:
                self._handlers.remove(entry)

        return end

    def on_resync(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        if self._connected:
            self._post(partial(self._resync, callback))

    def connected(self) -> bool:
        return self._connected

    def close(self) -> None:
        self._connected = False
        if self._delivery is not None:
            self._delivery.close()

    def request(self, node_id: str, operation: str, payload: Payload, timeout_s: float) -> Payload:
        data = encode(payload)
        if not self._connected:
            raise NodeUnreachable(node_id=node_id, cause="not connected to the bus")
        responder = self._responders.get(node_operation(node_id, operation))
        if responder is None:
            raise NoRoute(node_id=node_id)
        answers: list[bytes] = []
        thread = threading.Thread(
            target=lambda: answers.append(answered(responder, decode(data), self.counters)), daemon=True
        )
        thread.start()
        thread.join(timeout_s)
        if not answers:
            raise NodeQuiet(node_id=node_id, timeout_s=timeout_s)
        return answer_of(node_id, answers[0], self.counters)

    def serve(self, node_id: str, operation: str, responder: Responder) -> None:
        self._responders[node_operation(node_id, operation)] = responder

    def disconnect(self) -> None:
        """From here on nothing passes: events are lost and no node can be asked."""
        self._connected = False

    def reconnect(self) -> None:
        """The outage is over: everybody is told to read rows again."""
        self._connected = True
        self.counters.connects += 1
        for callback in list(self._callbacks):
            self._post(partial(self._resync, callback))

    def _handle(self, pattern: str, handler: Handler, subject: str, data: bytes) -> None:
        if (pattern, handler) not in self._handlers:
            return
        self.counters.received += 1
        try:
            handler(subject, decode(data))
        except Exception:
            self.counters.handler_errors += 1
            log.exception("a handler failed")

    def _resync(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:
            self.counters.handler_errors += 1
            log.exception("a resync failed")

    def _post(self, call: Call) -> None:
        if self._delivery is not None:
            self._delivery.post(call)
            return
        with self._lock:
            self._mail.append(call)
            if self._delivering:  # By a handler further up, or another thread: it takes this one as well.
                return
            self._delivering = True
        self._deliver()

    def _deliver(self) -> None:
        while True:
            with self._lock:
                if not self._mail:
                    self._delivering = False
                    return
                call = self._mail.popleft()
            try:
                call()
            except BaseException:
                with self._lock:
                    self._delivering = False
                raise
