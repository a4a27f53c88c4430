"""Events, the node link and the agent's end of it on core NATS, as the rest of a process sees them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from localai.bus.counters import BusCounters
from localai.bus.delivery import Delivery, HubDelivery, ThreadDelivery, delivery_of_this_process
from localai.bus.envelopes import ERROR, MalformedPayloadError, decode, encode
from localai.bus.exchange import answer_of
from localai.bus.loop_thread import LoopThread
from localai.bus.nats_connection import OUTBOX_LIMIT, Connection, Interest
from localai.bus.nats_questions import Question
from localai.bus.ports import Handler, Payload, Responder
from localai.bus.responders import Responders
from localai.bus.subjects import node_operation
from localai.logs import fields
from localai.tls import client_context

__all__ = ["ConnectOptions", "HubDelivery", "NatsBus", "ThreadDelivery", "delivery_of_this_process"]

log = logging.getLogger(__name__)

#: Arguments for ``nats.connect`` that are drawn anew for every connection, such as fresh credentials. Called on a
#: thread or greenlet of its own: it may ask somebody. What it raises counts as a failed attempt to connect.
ConnectOptions = Callable[[], Mapping[str, Any]]

#: How much longer than its own limit a request may take when the bus thread does not answer at all.
ANSWER_MARGIN_S = 1.0
#: Flushing what waits, ending a broken connection and the thread, each with a bound of its own.
CLOSE_TIMEOUT_S = 8.0


class NatsBus:
    """One connection to NATS on a native thread of its own.

    Made after the fork, once a process. The constructor neither waits nor fails when NATS is down: the connection is
    tried without end, and lost and made again without anybody asking. ``url`` may name several servers, separated by
    commas; ``nats://<token>@host:port`` carries a token. A server named with ``tls://`` gets no credentials before its
    certificate is trusted: by the authorities of ``ca_file``, else by those of the system.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        delivery: Delivery,
        options: ConnectOptions | None = None,
        ca_file: Path | None = None,
    ) -> None:
        servers = [part.strip() for part in url.split(",") if part.strip()]
        self._static: dict[str, Any] = {"servers": servers, "name": name}
        if ca_file is not None or any(server.startswith("tls://") for server in servers):
            self._static["tls"] = client_context(ca_file)
        self._options = options
        self._delivery = delivery
        self._connected = False
        self._closed = False
        self._outage_logged = False
        self._resync_due = False
        self.counters = BusCounters()
        self._connection = Connection(self, self.counters)
        self._thread = LoopThread(self._connection.run, delivery)
        self._responders = Responders(delivery, self.counters, self._thread.call)
        self._thread.start()

    # Events

    def publish(self, subject: str, payload: Payload) -> None:
        self._send(subject, encode(payload))

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        return self._listen(pattern, partial(self._on_event, handler))

    def on_resync(self, callback: Callable[[], None]) -> None:
        self._thread.call(partial(self._connection.add_resync, callback))

    def connected(self) -> bool:
        return self._connected

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._thread.call(self._connection.stop)
        if not self._thread.join(CLOSE_TIMEOUT_S):
            log.warning("the bus thread did not end within %s s", CLOSE_TIMEOUT_S)
        self._connected = False
        self._delivery.close()

    # Node link

    def request(self, node_id: str, operation: str, payload: Payload, timeout_s: float) -> Payload:
        subject, signal = node_operation(node_id, operation), self._delivery.signal()
        question = Question(node_id, subject, encode(payload), timeout_s, signal)
        if self._closed:
            raise question.unreachable("the bus of this process is closed")
        self._thread.call(partial(self._connection.ask, question))
        if not signal.wait(timeout_s + ANSWER_MARGIN_S):
            question.settle(question.unreachable("the bus thread gave no answer"))
        if isinstance(question.outcome, bytes):
            return answer_of(node_id, question.outcome, self.counters)
        raise question.outcome or question.unreachable("no outcome")

    # The agent's end

    def serve(self, node_id: str, operation: str, responder: Responder) -> None:
        self._listen(node_operation(node_id, operation), partial(self._on_request, responder))

    def _on_request(self, responder: Responder, interest: Interest, subject: str, reply: str, data: bytes) -> None:
        payload = self._read(subject, data)
        if payload is None:
            self._send(reply, encode({ERROR: "the request is not a JSON object"}))
        else:
            self._responders.take(responder, payload, partial(self._send, reply))

    # Between the process and the bus thread

    def _send(self, subject: str, data: bytes) -> None:
        if not subject:  # A request that was published and wants no answer.
            return
        outbox = self._connection.outbox
        self.counters.published += 1
        if self._closed or len(outbox) >= OUTBOX_LIMIT:  # The deque throws its oldest away by itself.
            self.counters.dropped += 1
        if not self._closed:
            outbox.append((subject, data))
            self._thread.call(self._connection.flush_outbox)

    def _listen(self, pattern: str, receive: Callable[[Interest, str, str, bytes], None]) -> Callable[[], None]:
        interest = Interest(pattern, lambda subject, reply, data: receive(interest, subject, reply, data))
        self._thread.call(partial(self._connection.add, interest))

        def end() -> None:
            interest.ended = True
            self._thread.call(partial(self._connection.remove, interest))

        return end

    def _read(self, subject: str, data: bytes) -> dict[str, Any] | None:
        try:
            payload = decode(data)
        except MalformedPayloadError as error:
            self.counters.malformed += 1
            self._say(logging.WARNING, "a message is ignored: %s", error, subject=subject)
            return None
        self.counters.received += 1
        return payload

    def _on_event(self, handler: Handler, interest: Interest, subject: str, reply: str, data: bytes) -> None:
        payload = self._read(subject, data)
        if payload is None:
            return
        if not self._delivery.post(partial(self._handle, handler, interest, subject, payload)):
            self._on_overflow()

    def _handle(self, handler: Handler, interest: Interest, subject: str, payload: Payload) -> None:
        if interest.ended:
            return
        try:
            handler(subject, payload)
        except Exception:
            self.counters.handler_errors += 1
            log.exception("a handler failed", extra=fields(subject=subject))

    def _on_overflow(self) -> None:
        """An event was thrown away because this process is behind: one resync after the backlog makes it good."""
        self.counters.overflowed += 1
        if not self._resync_due:
            self._resync_due = True
            self._say(logging.WARNING, "this process is behind with events: some are dropped, rows are read again")
            self._delivery.post(self._resync_after_overflow, always=True)

    def _resync_after_overflow(self) -> None:
        self._resync_due = False
        self._run_resync(self._connection.callbacks())

    def _run_resync(self, callbacks: list[Callable[[], None]]) -> None:
        for callback in callbacks:
            try:
                callback()
            except Exception:
                self.counters.handler_errors += 1
                log.exception("a resync failed")

    # Owner of the connection; called on the bus thread

    async def connect_options(self) -> Mapping[str, Any]:
        if self._options is None:
            return self._static
        loop = asyncio.get_running_loop()
        drawn: asyncio.Future[Mapping[str, Any]] = loop.create_future()
        self._delivery.spawn(partial(self._draw_options, self._options, drawn))
        return {**self._static, **await drawn}

    def _draw_options(self, options: ConnectOptions, drawn: asyncio.Future[Mapping[str, Any]]) -> None:
        try:
            found = options()
            self._thread.call(lambda: None if drawn.done() else drawn.set_result(found))
        except Exception as error:  # noqa: BLE001 - becomes the reason of a failed attempt to connect.
            failure = error
            self._thread.call(lambda: None if drawn.done() else drawn.set_exception(failure))

    def came_up(self) -> None:
        self._connected = True
        self._outage_logged = False
        self._say(logging.INFO, "connected to the bus")

    def went_down(self, reason: str) -> None:
        self._connected = False
        if not self._outage_logged:
            self._outage_logged = True
            self._say(logging.WARNING, "no connection to the bus, trying without end: %s", reason)

    def resync(self, callbacks: list[Callable[[], None]]) -> None:
        self._delivery.post(partial(self._run_resync, callbacks), always=True)

    def server_said(self, error: Exception) -> None:
        self._say(logging.ERROR, "the bus reports an error: %s", error)

    def _say(self, level: int, text: str, *args: object, **facts: object) -> None:
        # A log handler takes a lock, which the bus thread must never wait for.
        self._delivery.post(partial(log.log, level, text, *args, extra=fields(**facts)))
