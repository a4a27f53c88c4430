"""Which attempts do requests of this process wait for, and what do their rows say?

One thread follows each attempt for all its waiters: it requests the load, is woken by events, reads the row, and polls
it slowly in case events are lost.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from localai import logs
from localai.bus.ports import Events, Payload
from localai.bus.subjects import JOB_PROGRESS, JOB_RESULTS, job_of
from localai.clock import boottime
from localai.errors import BackendUnavailable, LocalAIError, ModelHeld, ModelLoading, StorageUnavailable

log = logs.get(__name__)

#: A status younger than this is good enough for the answer of a waiter whose time is over.
STATUS_AGE_S = 1.0

#: A request for a load is answered within the limits of connections and statements, also where rows are held.
ANSWER_LIMIT_S = 30.0

#: What a client is told of its load is this old at most, also of work that no event of the load speaks of.
TOLD_POLL_S = 2.0

LOADED, HELD = "loaded", "held"
_SUCCEEDED, _ENDED_BADLY = "succeeded", ("failed", "cancelled")


class Status(Protocol):
    """An attempt as its row says."""

    @property
    def job_state(self) -> str: ...
    def message(self) -> str: ...
    def to_json(self) -> dict[str, Any]: ...
    def retry_after_header(self) -> int: ...
    def refusal(self) -> ModelHeld:
        """A new error each time, for an attempt that takes no waiters any more."""


class Ticket(Protocol):
    """The answer to a request for a load."""

    @property
    def job_id(self) -> str: ...
    @property
    def state(self) -> str:
        """`created`, `live`, `held`, or `loaded` where a replica already serves."""

    @property
    def status(self) -> Status: ...


class Loads(Protocol):
    """The load service as waiters use it. Both raise StorageUnavailable."""

    def request(self, model: str, revision: str) -> Ticket: ...
    def read(self, job_id: str) -> Status: ...


class Routes(Protocol):
    """The routing table as waiters use it."""

    def holds(self, model: str) -> bool: ...
    def on_change(self, listener: Callable[[], None]) -> None: ...


class Attempt:
    """One attempt that requests of this process wait for."""

    def __init__(self, model: str, revision: str) -> None:
        self.model, self.revision = model, revision
        self.changed = threading.Condition()
        self.nudged = threading.Event()
        #: Guarded by the lock of all attempts, so that nobody joins one that is no longer followed.
        self.waiters = 0
        #: How many of them are told how far the load is.
        self.told = 0
        self.job_id: str | None = None
        self.status: Status | None = None
        self.read_at: float | None = None
        #: Held by the waiter that looks for all whose time is over; when it looked last, whatever it found.
        self.looking, self.looked_at = threading.Lock(), -math.inf
        #: Makes the error of a waiter, where there is nothing to wait for. One error cannot be raised by many.
        self.refusal: Callable[[], LocalAIError] | None = None
        #: The request for the load was answered once: there is a row, a replica or a refusal.
        self.answered = False
        #: The load succeeded and the table was read since.
        self.done = False

    @property
    def over(self) -> bool:
        return self.done or self.refusal is not None

    def tell(self) -> None:
        """Let every waiter look again."""
        with self.changed:
            self.changed.notify_all()

    def loading(self) -> LocalAIError:
        """The answer of a waiter whose time is over, from what is known now."""
        if self.refusal is not None:
            return self.refusal()
        if self.status is None:
            return BackendUnavailable(f"no replica of {self.model!r} can be reached at the moment")
        return ModelLoading(self.status.message(), self.status.to_json(), self.status.retry_after_header())


class Attempts:
    """The attempts that requests of this process wait for, at most one for each model."""

    def __init__(
        self,
        loads: Loads,
        routes: Routes,
        refresh: Callable[[], bool],
        *,
        poll_interval_s: float,
        per_model: int,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._loads, self._routes, self._refresh = loads, routes, refresh
        self._poll_interval_s, self._per_model, self._clock = poll_interval_s, per_model, clock
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}
        routes.on_change(self._on_routes)

    def listen(self, events: Events) -> None:
        """Be woken by events; without them the poll finds everything, later."""
        events.subscribe(JOB_RESULTS, self._on_result)
        events.subscribe(JOB_PROGRESS, self._on_progress)
        events.on_resync(self._nudge_all)

    def waiting(self) -> Mapping[str, int]:
        """How many requests wait for each model."""
        with self._lock:
            return {model: attempt.waiters for model, attempt in self._attempts.items()}

    def join(self, model: str, revision: str, *, told: bool = False) -> Attempt:
        """One more waiter for the attempt of a model; the first one makes this process request it.

        For one that is told how far the load is, its row is read at each progress. Raises ModelLoading when too many
        wait already.
        """
        with self._lock:
            attempt = self._attempts.get(model)
            if attempt is None or attempt.over:
                attempt = self._attempts[model] = Attempt(model, revision)
                threading.Thread(target=self._follow, args=(attempt,), name="load-waiters", daemon=True).start()
            if attempt.waiters < self._per_model:
                attempt.waiters += 1
                attempt.told += told
                if told and attempt.told == 1 and attempt.status is not None:
                    attempt.nudged.set()  # the rest of a longer poll would pass first
                return attempt
        raise attempt.loading()

    def leave(self, attempt: Attempt, *, told: bool = False) -> None:
        """One waiter less. Without any the attempt is no longer followed; the load goes on."""
        with self._lock:
            attempt.waiters -= 1
            attempt.told -= told
        if not attempt.waiters:
            attempt.nudged.set()

    def loading(self, attempt: Attempt) -> LocalAIError:
        """The answer of a waiter whose time is over, with a status that is young; an old one is never shown as news.

        Before the request for the load is answered there is nothing to say, so that is waited for.
        """
        with attempt.changed:
            if not attempt.changed.wait_for(lambda: attempt.answered, ANSWER_LIMIT_S):
                return StorageUnavailable()
        if attempt.job_id is not None and attempt.refusal is None:
            with attempt.looking:  # a thousand waiters may be late at once, and all are to say the same
                if max(attempt.looked_at, attempt.read_at or -math.inf) + STATUS_AGE_S < self._clock():
                    self._look(attempt, attempt.job_id)
            if attempt.refusal is None and self._is_old(attempt):
                return StorageUnavailable()
        return attempt.loading()

    def _look(self, attempt: Attempt, job_id: str) -> None:
        try:
            self._read(attempt, job_id)
        except StorageUnavailable:
            log.debug("the last known status of %s has to do, if it is young", attempt.model)
        finally:
            attempt.looked_at = self._clock()

    def _is_old(self, attempt: Attempt) -> bool:
        """Whether polls have failed for so long that nobody knows what became of the load."""
        return attempt.read_at is not None and attempt.read_at + 2 * self._poll_interval_s < self._clock()

    # One thread for each attempt

    def _follow(self, attempt: Attempt) -> None:
        while self._followed(attempt):
            try:
                self._step(attempt)
            except Exception:
                log.exception("following the load of %s failed", attempt.model)
                attempt.refusal = LocalAIError
            attempt.answered = True
            attempt.tell()
            if attempt.job_id is not None and attempt.read_at is None:
                continue  # an event may have passed before the job was known here
            if not attempt.over:
                attempt.nudged.wait(min(self._poll_interval_s, TOLD_POLL_S) if attempt.told else self._poll_interval_s)
                attempt.nudged.clear()

    def _followed(self, attempt: Attempt) -> bool:
        with self._lock:
            if attempt.waiters and not attempt.over:
                return True
            if self._attempts.get(attempt.model) is attempt:
                del self._attempts[attempt.model]
            return False

    def _step(self, attempt: Attempt) -> None:
        try:
            if attempt.job_id is None:
                self._request(attempt)
            else:
                self._read(attempt, attempt.job_id)
        except StorageUnavailable as error:
            # Before there is a row the request fails: a cold load never runs without a job.
            if attempt.job_id is None:
                log.warning(
                    "no load of %s could be requested: %s",
                    attempt.model,
                    error.message,
                    extra=logs.fields(**error.facts),
                )
                attempt.refusal = type(error)

    def _request(self, attempt: Attempt) -> None:
        ticket = self._loads.request(attempt.model, attempt.revision)
        if ticket.state == LOADED:
            # Loaded a moment ago, or a replica that this process cannot reach until its row says more.
            self._refresh()
            return
        attempt.status = status = ticket.status
        if ticket.state == HELD:
            attempt.refusal = status.refusal
        attempt.job_id = ticket.job_id

    def _read(self, attempt: Attempt, job_id: str) -> None:
        attempt.status = status = self._loads.read(job_id)
        attempt.read_at = self._clock()
        if status.job_state in _ENDED_BADLY:
            attempt.refusal = status.refusal
        elif status.job_state == _SUCCEEDED and self._refresh():
            attempt.done = True

    # Events

    def _on_result(self, subject: str, _: Payload) -> None:
        job_id = job_of(subject)
        for attempt in self._all():
            if attempt.job_id == job_id:
                attempt.nudged.set()

    def _on_progress(self, subject: str, _: Payload) -> None:
        job_id = job_of(subject)
        for attempt in self._all():
            if attempt.told and attempt.job_id == job_id:
                attempt.nudged.set()

    def _on_routes(self) -> None:
        for attempt in self._all():
            if self._routes.holds(attempt.model):
                attempt.tell()
            elif attempt.job_id is None:
                attempt.nudged.set()

    def _nudge_all(self) -> None:
        for attempt in self._all():
            attempt.nudged.set()

    def _all(self) -> list[Attempt]:
        with self._lock:
            return list(self._attempts.values())
