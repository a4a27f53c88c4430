"""How a connection to NATS is made, used, lost and made again.

Everything here runs on the bus thread (:mod:`localai.bus.loop_thread`) and touches neither locks nor logs of the
process. nats-py's own reconnect is off: whatever ends a connection, expired credentials included, leads to the one path
of a new client with fresh options, all subscriptions, a confirming round trip and one resync.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from localai.bus.counters import BusCounters
from localai.bus.nats_questions import Question, Questions

#: One attempt to connect, handshake included.
CONNECT_TIMEOUT_S = 5.0
#: Drawing fresh connect options, which may ask a frontend for a credential.
OPTIONS_TIMEOUT_S = 30.0
#: The round trip that shows that the server took the subscriptions.
CONFIRM_TIMEOUT_S = 5
#: First and longest pause between two attempts; a restarted server is found again within the longest.
RETRY_FIRST_S, RETRY_MOST_S = 0.1, 2.0
#: How often the connection is asked whether it lives, should its closed callback get lost in nats-py.
LOOK_INTERVAL_S = 1.0
#: Pings that show a frozen server or a dead network: noticed after about three of them.
PING_INTERVAL_S = 10
#: How long one full socket may hold up what is sent; nats-py waits without limit by default.
FLUSH_TIMEOUT_S = 2.0
#: What still waits when the process ends gets this long to leave.
LAST_FLUSH_S = 1.0
#: Messages that may wait to be sent, for a connection or for the bus thread in a burst; the oldest goes first.
OUTBOX_LIMIT = 10_000


@dataclass(eq=False, slots=True)
class Interest:
    """A subscription somebody wants, whatever connection there is."""

    pattern: str
    receive: Callable[[str, str, bytes], None]  # subject, reply subject, data
    ended: bool = False


class Owner(Protocol):
    """Who is told what happens to the connection. Called on the bus thread; must not wait."""

    async def connect_options(self) -> Mapping[str, Any]: ...

    def came_up(self) -> None: ...

    def went_down(self, reason: str) -> None: ...

    def resync(self, callbacks: list[Callable[[], None]]) -> None: ...

    def server_said(self, error: Exception) -> None: ...


class _Client(Client):
    """A client that shows credentials to a server named with ``tls://`` only over TLS.

    nats-py starts TLS if the server asks for it. A server, or anyone on the way to it, that does not ask would get the
    token in the clear.
    """

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        server = self._current_server
        if server is not None and server.uri.scheme == "tls" and not info.get("tls_required"):
            raise errors.Error(f"the NATS server at {server.uri.hostname}, named with tls://, does not offer TLS")
        await super()._process_info(info, initial_connection=initial_connection)


class Connection:
    """The wanted state (subscriptions, outbox, questions) and the one client that serves it at the moment."""

    def __init__(self, owner: Owner, counters: BusCounters) -> None:
        self._owner = owner
        self._counters = counters
        self._client: Client | None = None
        self._interests: list[Interest] = []
        self._active: dict[Interest, Subscription] = {}
        self._callbacks: list[Callable[[], None]] = []
        self._fresh_callbacks: list[Callable[[], None]] = []
        self._questions = Questions()
        self._work = asyncio.Event()
        self._lost = asyncio.Event()
        self._stop = asyncio.Event()
        self._trouble: Exception | None = None  # the last error that concerns the connection itself
        #: Filled from any thread, emptied here.
        self.outbox: deque[tuple[str, bytes]] = deque(maxlen=OUTBOX_LIMIT)

    # Wishes; each is called on the bus thread and returns at once.

    def add(self, interest: Interest) -> None:
        self._interests.append(interest)
        self._work.set()

    def remove(self, interest: Interest) -> None:
        self._interests = [kept for kept in self._interests if kept is not interest]
        self._work.set()

    def add_resync(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)
        self._fresh_callbacks.append(callback)
        self._work.set()

    def ask(self, question: Question) -> None:
        self._questions.put(self._client, question)

    def callbacks(self) -> list[Callable[[], None]]:
        """Everybody who wants a resync; may be asked from any thread."""
        return list(self._callbacks)

    def flush_outbox(self) -> None:
        self._work.set()

    def stop(self) -> None:
        self._stop.set()
        self._lost.set()

    async def run(self) -> None:
        """Hold a connection until ``stop``."""
        asyncio.get_running_loop().set_exception_handler(self._report_stray)
        pause_s = RETRY_FIRST_S
        while not self._stop.is_set():
            try:
                client = await self._connect()
                pause_s = RETRY_FIRST_S
                reason = await self._use(client)
            except Exception as error:  # noqa: BLE001 - the owner logs the reason; nothing may end the bus thread.
                self._counters.connect_failures += 1
                reason = _reason(self._trouble or error)
            if self._stop.is_set():
                return
            self._owner.went_down(reason)
            await _wait(self._stop, pause_s * random.uniform(0.5, 1))
            pause_s = min(RETRY_MOST_S, pause_s * 2)

    async def _connect(self) -> Client:
        """A connected client. Raises what kept it from connecting."""
        client = _Client()
        self._trouble = None
        lost = self._lost = asyncio.Event()

        async def closed() -> None:
            lost.set()

        async def failed(error: Exception) -> None:
            if not client.is_connected or isinstance(error, (OSError, errors.StaleConnectionError)):
                self._trouble = error
            else:
                self._counters.server_errors += 1
                self._owner.server_said(error)

        options: dict[str, Any] = {
            "allow_reconnect": False,
            "max_reconnect_attempts": 1,
            "reconnect_time_wait": 0,
            "ping_interval": PING_INTERVAL_S,
            "flush_timeout": FLUSH_TIMEOUT_S,
            **await asyncio.wait_for(self._owner.connect_options(), OPTIONS_TIMEOUT_S),
            "error_cb": failed,
            "closed_cb": closed,
        }
        try:
            await asyncio.wait_for(client.connect(**options), CONNECT_TIMEOUT_S)
        except BaseException:
            await _close(client)
            raise
        return client

    async def _use(self, client: Client) -> str:
        """Serve everything wanted with this client until it is lost or ``stop`` is called; why it ended."""
        pump: asyncio.Task[None] | None = None
        try:
            self._active.clear()
            self._fresh_callbacks = []
            await self._align(client)
            self._client = client
            self._counters.connects += 1
            self._counters.connect_failures = 0
            self._owner.came_up()
            self._owner.resync(list(self._callbacks))
            self._work.set()
            pump = asyncio.get_running_loop().create_task(self._pump(client))
            await self._until_lost(client, pump)
            error = client.last_error or self._trouble
            return _reason(error) if error else "the connection was closed"
        finally:
            self._client = None
            self._questions.abandon()
            if pump is not None:
                await _end(pump, FLUSH_TIMEOUT_S)
            if self._stop.is_set():
                await _end(asyncio.create_task(self._flush_last(client)), LAST_FLUSH_S, cancel_first=False)
            await _close(client)

    async def _until_lost(self, client: Client, pump: asyncio.Task[None]) -> None:
        while client.is_connected and not self._lost.is_set() and not self._stop.is_set():
            await _wait(self._lost, LOOK_INTERVAL_S)
            if pump.done():
                pump.result()
                return

    async def _pump(self, client: Client) -> None:
        """Bring the client in line with what is wanted and send what waits, whenever there is work."""
        while self._client is client:
            await self._work.wait()
            self._work.clear()
            await self._align(client)
            while self.outbox and self._client is client:
                await self._send(client, *self.outbox.popleft())

    async def _align(self, client: Client) -> None:
        """Subscribe and unsubscribe as wanted, confirm with a round trip, then resync who has not been yet."""
        wanted = list(self._interests)
        gone = [interest for interest in self._active if interest not in wanted]
        new = [interest for interest in wanted if interest not in self._active]
        for interest in gone:
            await self._active.pop(interest).unsubscribe()
        for interest in new:
            try:
                self._active[interest] = await client.subscribe(interest.pattern, cb=_receiver(interest))
            except errors.BadSubjectError as error:
                self.remove(interest)
                self._owner.server_said(error)
        fresh, self._fresh_callbacks = self._fresh_callbacks, []
        if new or fresh:
            await client.flush(timeout=CONFIRM_TIMEOUT_S)
        if fresh:
            self._owner.resync(fresh)

    async def _send(self, client: Client, subject: str, data: bytes) -> None:
        try:
            await client.publish(subject, data)
        except errors.Error as error:
            self._counters.dropped += 1
            if not isinstance(error, errors.ConnectionClosedError):
                self._owner.server_said(error)

    async def _flush_last(self, client: Client) -> None:
        give_up_at = time.monotonic() + LAST_FLUSH_S
        while self.outbox and client.is_connected and time.monotonic() < give_up_at:
            await self._send(client, *self.outbox.popleft())
        await client.flush(timeout=1)

    def _report_stray(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._owner.server_said(error if isinstance(error, Exception) else RuntimeError(str(context.get("message"))))


def _receiver(interest: Interest) -> Callable[[Msg], Awaitable[None]]:
    async def receive(message: Msg) -> None:
        if not interest.ended:
            interest.receive(message.subject, message.reply, message.data)

    return receive


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return


async def _end(task: asyncio.Task[None], limit_s: float, *, cancel_first: bool = True) -> None:
    """Wait for a task for a limited time. nats-py swallows a cancellation now and then, so nobody waits for more."""
    if cancel_first:
        task.cancel()
    await asyncio.wait([task], timeout=limit_s)
    task.cancel()
    if task.done() and not task.cancelled():
        task.exception()  # Seen: what ended the connection is reported by other means.


async def _close(client: Client) -> None:
    """Close a client that may be broken in any way, within two seconds, its socket included."""
    try:
        await asyncio.wait_for(client.close(), 2)
    except (TimeoutError, errors.Error, OSError, AssertionError):
        # No public way leads to the socket of a client whose own close failed.
        writer = getattr(getattr(client, "_transport", None), "_io_writer", None)
        if writer is not None:
            writer.transport.abort()


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
