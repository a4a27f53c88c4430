"""How does one request wait for a cold model: until the table has a replica, the attempt failed, or its time is over.

A waiter holds no database connection. It remembers the attempt and reads that row for the cause, so that all waiters
of an attempt are told the same. A waiter that leaves ends nothing but its own wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from localai.bus.ports import Events
from localai.clock import boottime
from localai.errors import CallCancelled
from localai.loads.attempts import Attempt, Attempts, Loads, Routes

#: More than this would only fill memory: a load that slow is better asked for again.
WAITERS_PER_MODEL = 1000


class Waiters:
    """The requests of this process that wait for models.

    `refresh` re-reads the routing table and says whether it could; `wait_s` is the budget of a request, 0 is no limit.
    """

    def __init__(
        self,
        loads: Loads,
        routes: Routes,
        refresh: Callable[[], bool],
        *,
        wait_s: float,
        poll_interval_s: float,
        per_model: int = WAITERS_PER_MODEL,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._routes, self._wait_s, self._clock = routes, wait_s, clock
        self._attempts = Attempts(
            loads, routes, refresh, poll_interval_s=poll_interval_s, per_model=per_model, clock=clock
        )

    def listen(self, events: Events) -> None:
        """Be woken by events; without them a poll finds everything, later."""
        self._attempts.listen(events)

    def waiting(self) -> Mapping[str, int]:
        """How many requests wait for each model."""
        return self._attempts.waiting()

    def attach(self, model: str, revision: str) -> Waiter:
        """Wait for a model that no replica serves: join its attempt, or have one requested.

        Raises ModelLoading when too many wait already.
        """
        until = self._clock() + self._wait_s if self._wait_s else None
        return Waiter(self._attempts, self._attempts.join(model, revision), self._routes, until, self._clock)


class Waiter:
    """One request that waits. Use it as a context manager: leaving the block ends the wait and nothing else."""

    def __init__(
        self, attempts: Attempts, attempt: Attempt, routes: Routes, until: float | None, clock: Callable[[], float]
    ) -> None:
        self._attempts, self._attempt, self._routes, self._until, self._clock = attempts, attempt, routes, until, clock
        self._left = False

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._attempts.leave(self._attempt)

    def wait(self) -> None:
        """Return when the routing table has a replica.

        Raises ModelLoading when the budget is over, ModelHeld with the cause when the attempt failed, CallCancelled
        after `leave`, StorageUnavailable when no attempt could be requested, BackendUnavailable when a replica serves
        that this process cannot reach.
        """
        while not self._served(self._attempt):
            # The load succeeded, and its replica is gone again already.
            over, self._attempt = self._attempt, self._attempts.join(self._attempt.model, self._attempt.revision)
            self._attempts.leave(over)

    def leave(self) -> None:
        """The client is gone: `wait` ends in its own greenlet."""
        self._left = True
        self._attempt.tell()

    def _served(self, attempt: Attempt) -> bool:
        """Wait for one attempt; whether the model is served, or False when another attempt is needed."""
        with attempt.changed:
            while not self._routes.holds(attempt.model):
                if self._left:
                    raise CallCancelled
                if attempt.refusal is not None:
                    raise attempt.refusal()
                if attempt.done:
                    return False
                remaining = None if self._until is None else self._until - self._clock()
                if remaining is not None and remaining <= 0:
                    break
                attempt.changed.wait(remaining)
            else:
                return True
        raise self._attempts.loading(attempt)
