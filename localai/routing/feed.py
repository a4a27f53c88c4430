"""How does the routing table stay true: register, then read, then serve; poll, renew, and start over when in doubt.

One thread does all of it, so there is one re-read at a time. Events and broken calls only ask it for another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from localai import logs
from localai.clock import boottime
from localai.errors import StorageUnavailable
from localai.ids import FrontendId
from localai.inference.ports import Endpoint
from localai.routing.ports import Connections, Drains, Frontends, OpenDrain, RoutingRows, Snapshot
from localai.routing.rules import Lease, Standing
from localai.routing.table import RoutingTable

log = logs.get(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """This web process as other processes see it."""

    host: str
    pid: int
    url: str | None
    instance_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """How often the feed does what, in seconds."""

    lease_ttl_s: float
    renew_s: float
    poll_s: float


class Signals:
    """Named points of the feed; they do nothing in production, and a test may stop a feed there."""

    def read(self, snapshot: Snapshot) -> None:
        """Rows are read and not applied yet."""

    def counted(self, replica_id: str, in_flight: int) -> None:
        """What is with a replica that is being taken away is counted, and not said yet."""

    def stepped(self) -> None:
        """One step is done."""


class RoutingFeed:
    """Keeps one routing table true. `step` may be driven by a test; `start` drives it on a thread."""

    def __init__(
        self,
        table: RoutingTable,
        rows: RoutingRows,
        frontends: Frontends,
        connections: Connections,
        drains: Drains,
        *,
        process: Process,
        intervals: Intervals,
        on_registered: Callable[[FrontendId], None] = lambda _: None,
        on_unreachable: Callable[[Endpoint], None] = lambda _: None,
        signals: Signals | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """``on_unreachable`` is called beside the feed's thread after each dial of a routed instance that failed."""
        self._table, self._rows, self._frontends, self._connections = table, rows, frontends, connections
        self._drains = drains
        self._process, self._intervals, self._clock = process, intervals, clock
        self._on_registered, self._signals = on_registered, signals or Signals()
        self._on_unreachable = on_unreachable
        self._id: FrontendId | None = None
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._turn = threading.Condition()
        self._asked = self._answered = self._failed = 0
        self._stopping = self._refused = False
        self._probing: set[Endpoint] = set()
        #: Replicas that are being taken away, by id: instance and last acknowledged count. None: not listed yet.
        self._open: dict[str, tuple[str, int | None]] | None = None
        self._thread: threading.Thread | None = None
        table.on_left(self.nudge)

    # What others ask

    def start(self) -> None:
        """Begin on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="routing", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and this process's row, so that nobody waits for it."""
        with self._turn:
            self._stopping = True
            self._turn.notify_all()
        if self._thread is not None:
            self._thread.join(self._intervals.renew_s)
        self._table.clear()
        self._end_row()

    def nudge(self) -> None:
        """Ask for a re-read. Returns at once."""
        with self._turn:
            self._asked += 1
            self._turn.notify_all()

    def refresh(self, timeout_s: float) -> bool:
        """Wait for rows read from now on; False when they could not be read within the limit."""
        with self._turn:
            self._asked += 1
            mine = self._asked
            self._turn.notify_all()
            self._turn.wait_for(lambda: self._stopping or max(self._answered, self._failed) >= mine, timeout_s)
            return self._answered >= mine

    # One step

    def step(self) -> None:
        """Do what is due: a registration, a renewal, a look at the version, a re-read."""
        with self._turn:
            asked = self._asked
        done = False
        try:
            self._step(asked)
            done, self._refused = True, False
        except StorageUnavailable as error:
            self._refuse(error)
        finally:
            with self._turn:
                if done:
                    self._answered = max(self._answered, asked)
                else:
                    self._failed = max(self._failed, asked)
                self._turn.notify_all()
        self._signals.stepped()

    def _step(self, asked: int) -> None:
        if self._id is not None and self._lapsed():
            # The row may hold for a moment yet; to wait for this process would be in vain.
            log.warning("this process lost its lease and starts over", extra=logs.fields(frontend=self._id))
            self._start_over()
        if self._id is None or (self._clock() >= self._renew_at and not self._renew()):
            # In this order: what commits between the two would otherwise never learn of this process.
            self._register()
            self._read()
        elif asked > self._answered or self._table.lost() or not self._confirmed():
            self._read()
        self._table.hold(self._lease)
        self._acknowledge()

    def _lapsed(self) -> bool:
        lease = self._lease
        return lease is None or lease.standing(self._clock(), self._intervals.lease_ttl_s) is Standing.LAPSED

    def _register(self) -> None:
        sent_at = self._clock()
        process = self._process
        self._id = self._frontends.register(process.host, process.pid, process.url, process.instance_id)
        self._on_registered(self._id)
        self._granted(sent_at)

    def _renew(self) -> bool:
        """Extend the lease; when the row has lapsed, empty the table and forget the row."""
        assert self._id is not None
        sent_at = self._clock()
        if self._frontends.renew(self._id, self._table.uses()):
            self._granted(sent_at)
            return True
        log.warning("the row of this process has lapsed: it registers as a new one", extra=logs.fields(old=self._id))
        self._table.clear()
        self._id = None
        return False

    def _granted(self, sent_at: float) -> None:
        self._lease = Lease.granted(sent_at, self._intervals.lease_ttl_s)
        self._renew_at = sent_at + self._intervals.renew_s

    def _confirmed(self) -> bool:
        asked_at = self._clock()
        return self._table.confirm(self._rows.routing_version(), asked_at=asked_at)

    def _read(self) -> None:
        asked_at = self._clock()
        snapshot = self._rows.routing_snapshot()
        self._signals.read(snapshot)
        for endpoint in self._table.apply(snapshot, asked_at=asked_at):
            self._probe(endpoint)
        self._open = None

    def _acknowledge(self) -> None:
        """Say of each replica that is being taken away how many requests of this process are still with it.

        They are listed after a reading: what is found was marked before the next one, so it never comes back into the
        table. A mark that commits between the two is not acknowledged, because the table still has the replica; it
        raised the version, so the next step reads again. While a request keeps one of them, each step lists them again:
        the database says when requests are to be cut.
        """
        assert self._id is not None
        if self._open is None or any(said != 0 for _, said in self._open.values()):
            found = self._drains.open_drains(self._id)
            self._open = {row.replica_id: (row.process_instance, row.said) for row in found}
            for row in found:
                self._cut(row)
        for replica_id, (instance, said) in list(self._open.items()):
            count = self._table.remaining(instance)
            if count is not None and count != said:
                self._signals.counted(replica_id, count)
                self._drains.acknowledge(self._id, replica_id, count)
                self._open[replica_id] = (instance, count)

    def _cut(self, drain: OpenDrain) -> None:
        """End the requests that keep a replica for too long, or that a forced unload does not wait for."""
        if drain.cut and self._table.remaining(drain.process_instance):
            ended = self._table.cut(drain.process_instance)
            if ended:
                facts = logs.fields(process_instance=drain.process_instance, requests=ended)
                log.warning("requests are cut: their replica is unloaded", extra=facts)

    def _refuse(self, error: StorageUnavailable) -> None:
        """The database did not do its part; whether loaded models are served meanwhile is the table's rule."""
        if not self._refused:  # once for each outage
            log.warning("the routes cannot be confirmed: %s", error.message)
        self._refused = True
        if self._lease is not None:
            self._lease = self._lease.refused(self._clock())
        if self._table.standing() is not Standing.STARTING:
            self._table.hold(self._lease)

    def _start_over(self) -> None:
        self._table.clear()
        old, self._id = self._id, None
        if old is not None:
            self._frontends.end(old)

    def _end_row(self) -> None:
        try:
            if self._id is not None:
                self._frontends.end(self._id)
        except StorageUnavailable as error:
            log.warning("the row of this process stays until its lease ends: %s", error.message)
        self._id = None

    # Broken connections

    def _probe(self, endpoint: Endpoint) -> None:
        """Try a lost instance again beside this thread: a dial takes long where a machine is gone."""
        if endpoint in self._probing:
            return
        self._probing.add(endpoint)
        threading.Thread(target=self._probe_once, args=(endpoint,), name="routing-probe", daemon=True).start()

    def _probe_once(self, endpoint: Endpoint) -> None:
        try:
            if not self._connections.probe(endpoint):
                self._on_unreachable(endpoint)
            elif not self._table.admit(endpoint):
                self._connections.forget(endpoint)
        except Exception:
            log.exception("probing a replica failed")
        finally:
            self._probing.discard(endpoint)

    # The thread

    def _run(self) -> None:
        while not self._stopping:
            try:
                self.step()
            except Exception:  # Without this thread the process would refuse every request for ever.
                log.exception("a step of the routing feed failed")
            with self._turn:
                self._turn.wait_for(lambda: self._stopping or self._pending(), self._intervals.poll_s)

    def _pending(self) -> bool:
        return self._asked > max(self._answered, self._failed)
