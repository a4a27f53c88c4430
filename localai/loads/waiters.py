"""How does one request wait for a cold model: until the table has a replica, the attempt failed, or its time is over.

A waiter holds no database connection. It remembers the attempt and reads that row for the cause, so that all waiters
of an attempt are told the same. A waiter that leaves ends nothing but its own wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

from localai.bus.ports import Events
from localai.clock import boottime
from localai.errors import BackendUnavailable, CallCancelled
from localai.loads.attempts import Attempt, Attempts, Loads, Routes, Status

#: More than this would only fill memory: a load that slow is better asked for again.
WAITERS_PER_MODEL = 1000
#: A load whose row could not be read for this long has ended: its worker ends what nobody renews.
SILENCE_S = 90.0
#: One request waits for this many loads at most: more often than that a replica does not vanish by chance.
_LOADS = 3

#: Gets each new status of a load, in the thread that waits; it must not block.
Tell = Callable[[Status], None]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request waits: `wait_s` in all (0 is no limit), or `silence_s` without news where it gets news."""

    wait_s: float
    silence_s: float = SILENCE_S

    def until(self, begun: float, heard: float | None, *, told: bool) -> float | None:
        """When a wait is over, as far as is known. Who is told how far the load is waits as long as it takes: a load
        has bounds of its own, and only a time in which nothing is heard of it has none."""
        if told:
            return max(begun, heard or begun) + self.silence_s
        return begun + self.wait_s if self.wait_s else None


@dataclass(frozen=True, slots=True)
class _Means:
    """What every waiter of a process works with."""

    attempts: Attempts
    routes: Routes
    patience: Patience
    clock: Callable[[], float]


class Waiters:
    """The requests of this process that wait for models. `refresh` re-reads the routing table, if it can."""

    def __init__(
        self,
        loads: Loads,
        routes: Routes,
        refresh: Callable[[], bool],
        *,
        wait_s: float,
        poll_interval_s: float,
        silence_s: float = SILENCE_S,
        per_model: int = WAITERS_PER_MODEL,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._attempts = Attempts(
            loads, routes, refresh, poll_interval_s=poll_interval_s, per_model=per_model, clock=clock
        )
        # A silence is one of several looks.
        patience = Patience(wait_s, max(silence_s, 3 * poll_interval_s))
        self._means = _Means(self._attempts, routes, patience, clock)

    def listen(self, events: Events) -> None:
        """Be woken by events; without them a poll finds everything, later."""
        self._attempts.listen(events)

    def waiting(self) -> Mapping[str, int]:
        """How many requests wait for each model."""
        return self._attempts.waiting()

    def attach(self, model: str, revision: str, tell: Tell | None = None) -> Waiter:
        """Wait for a model that no replica serves: join its attempt, or have one requested.

        With `tell` the wait lasts as long as the load. Raises ModelLoading when too many wait already.
        """
        return Waiter(self._means, model, revision, tell)


class Waiter:
    """One request that waits. Use it as a context manager: leaving the block ends the wait and nothing else."""

    def __init__(self, means: _Means, model: str, revision: str, tell: Tell | None) -> None:
        self._means, self._tell = means, tell
        self._shown: Status | None = None
        self._begun = means.clock()
        self._attempt = means.attempts.join(model, revision, told=self._told)
        self._left = False

    def __enter__(self) -> Waiter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._means.attempts.leave(self._attempt, told=self._told)

    def wait(self) -> None:
        """Return when the routing table has a replica.

        Raises ModelLoading when the time is over, ModelHeld with the cause when the attempt failed, CallCancelled
        after `leave`, StorageUnavailable when no attempt could be requested, BackendUnavailable when a replica serves
        that this process cannot reach, or when replicas go as fast as they come.
        """
        for _ in range(_LOADS):
            if self._served(self._attempt):
                return
            # The load succeeded, and its replica is gone again already.
            over = self._attempt
            self._attempt = self._means.attempts.join(over.model, over.revision, told=self._told)
            self._means.attempts.leave(over, told=self._told)
        raise BackendUnavailable(f"replicas of {self._attempt.model!r} go as fast as they come")

    def leave(self) -> None:
        """The client is gone: `wait` ends in its own greenlet."""
        self._left = True
        self._attempt.tell()

    @property
    def _told(self) -> bool:
        return self._tell is not None

    def _served(self, attempt: Attempt) -> bool:
        """Wait for one attempt; whether the model is served, or False when another attempt is needed."""
        with attempt.changed:
            while not self._means.routes.holds(attempt.model):
                if self._left:
                    raise CallCancelled
                if attempt.refusal is not None:
                    raise attempt.refusal()
                if attempt.done:
                    return False
                self._show(attempt.status)
                until = self._means.patience.until(self._begun, attempt.read_at, told=self._told)
                remaining = None if until is None else until - self._means.clock()
                if remaining is not None and remaining <= 0:
                    break
                attempt.changed.wait(remaining)
            else:
                return True
        error = self._means.attempts.loading(attempt)
        if self._means.routes.holds(attempt.model):  # the last look found it loaded
            return True
        raise error

    def _show(self, status: Status | None) -> None:
        if self._tell is not None and status is not None and status != self._shown:
            self._shown = status
            self._tell(status)
