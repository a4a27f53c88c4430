"""Which task queue a process talks to, and how long it may keep that process waiting.

A message is a wake-up and never the work: the row decides, and the sweep sends again. So the library's retries, time
limits and results are off, and no call waits for a broker longer than its socket timeout.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import redis
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.brokers.redis import RedisBroker
from dramatiq.brokers.stub import StubBroker
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed, DecodeError
from dramatiq.message import Message
from redis.backoff import NoBackoff
from redis.retry import Retry

from localai.clock import boottime
from localai.errors import BadSetting
from tasks.middleware.logs import LogFields

#: A broker that does not answer holds up a sender this long and no longer.
SOCKET_TIMEOUT_S = 2.0
#: Of a million commands on a queue, those that also give back what a dead worker held. A worker polls some forty times
#: a second, so about every ten seconds; the default takes minutes.
MAINTENANCE_CHANCE = 2_500
#: By the clocks of the clients: a worker that was silent this long has lost what it held. The row, and not this,
#: decides when work is given up, so the value only has to stand far above a pause of a healthy process.
HEARTBEAT_TIMEOUT_MS = 60_000

log = logging.getLogger(__name__)


def make_broker(url: str) -> ValkeyBroker | LocalBroker:
    """The broker of a URL; ``stub://`` is one inside this process.

    Connects when first used. Raises BadSetting for a URL that is not ``redis://``, ``rediss://`` or ``unix://``.
    """
    if url.startswith("stub://"):
        return LocalBroker()
    try:
        return ValkeyBroker(make_client(url))
    except ValueError:
        raise BadSetting("LOCALAI_BROKER_URL", "(hidden)", "a redis://, rediss:// or unix:// URL") from None


def make_client(url: str) -> redis.Redis:
    """A client whose every command ends within the socket timeout.

    The library's own default is ten retries. One stays, for refused and broken connections only: a connection that the
    server closed while it was idle is noticed by the command that uses it. A command that timed out is not repeated.
    """
    return redis.Redis.from_url(
        url,
        socket_timeout=SOCKET_TIMEOUT_S,
        socket_connect_timeout=SOCKET_TIMEOUT_S,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        client_name="localai",
    )


#: How long an idle worker waits between two looks at a queue, at most: half of it is the usual delay of an order, and a
#: cold load has three of them. The library's default of a second makes every idle start a quarter of a second late.
POLL_MS = 30


class ValkeyBroker(RedisBroker):
    """The broker on Redis or Valkey. ``polls`` tells when each queue was last asked for messages."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(  # type: ignore[no-untyped-call]  # The library has no types here.
            client=client,
            middleware=[LogFields()],
            maintenance_chance=MAINTENANCE_CHANCE,
            heartbeat_timeout=HEARTBEAT_TIMEOUT_MS,
        )
        self.polls: dict[str, float] = {}

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        # Nothing is delayed in the queue: rows say what is due when. So only the other queues need looking at often.
        wait_ms = timeout if queue_name == dq_name(queue_name) else min(timeout, POLL_MS)
        return WatchedConsumer(super().consume(queue_name, prefetch, wait_ms), queue_name, self.polls)

    def forget_queue(self, queue_name: str) -> None:
        """Delete a queue with its delayed and dead messages."""
        self.flush(queue_name)

    def close(self) -> None:
        """Close every connection. Whatever is used after opens its own anew."""
        self.client.close()
        self.client.connection_pool.disconnect()


class LocalBroker(StubBroker):
    """The broker inside one process, for tests. Unlike its parent it takes messages for queues nobody declared yet."""

    def __init__(self) -> None:
        super().__init__(middleware=[LogFields()])
        self.polls: dict[str, float] = {}

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 100) -> Consumer:
        return WatchedConsumer(super().consume(queue_name, prefetch, timeout), queue_name, self.polls)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        self.declare_queue(message.queue_name)
        return super().enqueue(message, delay=delay)

    def forget_queue(self, queue_name: str) -> None:
        """Delete a queue with its delayed and dead messages."""
        for name in (queue_name, f"{queue_name}.DQ"):
            if name in self.queues:
                self.flush(name)
        self.dead_letters_by_queue.pop(queue_name, None)


class WatchedConsumer(Consumer):
    """A consumer whose queue keeps moving, whatever the broker answers.

    Dramatiq knows connections that are refused or closed. A timeout is none to it, and one inside ``requeue`` ends the
    consumer's thread for good; a message that cannot be read makes it throw away the readable ones fetched with it.
    """

    def __init__(self, inner: Consumer, queue_name: str, polls: dict[str, float]) -> None:
        self._inner = inner
        self._queue_name = queue_name
        self._polls = polls

    def __next__(self) -> MessageProxy | None:
        try:
            with _as_closed_connection():
                message = next(self._inner)
        except DecodeError as error:
            log.error("a message that cannot be read is skipped on queue %s: %s", self._queue_name, error)
            message = None
        self._polls[self._queue_name] = boottime()
        return message

    def ack(self, message: MessageProxy) -> None:
        with _as_closed_connection():
            self._inner.ack(message)

    def nack(self, message: MessageProxy) -> None:
        with _as_closed_connection():
            self._inner.nack(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        with _as_closed_connection():
            self._inner.requeue(messages)

    def close(self) -> None:
        self._inner.close()


@contextlib.contextmanager
def _as_closed_connection() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise ConnectionClosed(error) from None  # type: ignore[no-untyped-call]  # The library has no types here.
