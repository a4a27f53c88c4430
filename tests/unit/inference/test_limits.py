"""Calls over a limit are ended, and a process that stood still judges none by the time it lost."""

from __future__ import annotations

import threading

import pytest

from localai.errors import FirstByteTimeout, LocalAIError
from localai.inference.limits import STOOD_STILL_S, LimitWatch

pytestmark = pytest.mark.unit

LIMIT_S = 30.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class WaitingCall:
    """A call that waits for its process since `since`."""

    def __init__(self, since: float, limit_s: float = 10.0) -> None:
        self.since, self.limit_s = since, limit_s
        self.ended_by: list[LocalAIError | None] = []
        self.ended = threading.Event()

    def overdue(self, now: float) -> LocalAIError | None:
        return FirstByteTimeout() if now - self.since >= self.limit_s else None

    def cancel(self, why: LocalAIError | None = None) -> None:
        self.ended_by.append(why)
        self.ended.set()


class NoThread(LimitWatch):
    """The test looks by itself."""

    def _run(self) -> None:
        return


def test_a_call_is_ended_at_its_limit_and_others_are_not() -> None:
    clock = Clock()
    watch = NoThread(clock=clock)
    call, other = WaitingCall(clock.now), WaitingCall(clock.now, 100.0)
    watch.add(call)
    watch.add(other)
    for _ in range(9):
        clock.now += 1
        watch.look()
    assert call.ended_by == []
    clock.now += 1
    watch.look()
    assert [type(why) for why in call.ended_by] == [FirstByteTimeout]
    assert other.ended_by == []


def test_a_call_that_is_removed_is_not_judged() -> None:
    clock = Clock()
    watch = NoThread(clock=clock)
    call = WaitingCall(clock.now - 100)
    watch.add(call)
    watch.remove(call)
    watch.remove(call)
    watch.look()
    assert call.ended_by == []


def test_a_process_that_stood_still_gives_its_calls_one_more_tick() -> None:
    """The answers may lie in its buffers."""
    clock = Clock()
    watch = NoThread(clock=clock)
    call = WaitingCall(clock.now)
    watch.add(call)
    clock.now += STOOD_STILL_S + 20
    watch.look()
    assert call.ended_by == []
    clock.now += 0.25
    watch.look()
    assert len(call.ended_by) == 1


def test_one_thread_serves_calls_that_come_later_and_outlives_a_fault_in_one() -> None:
    class Faulty(WaitingCall):
        def overdue(self, now: float) -> LocalAIError | None:
            self.ended.set()
            raise ValueError("a fault")

    watch = LimitWatch(tick_s=0.01)
    try:
        faulty = Faulty(0.0)
        watch.add(faulty)
        assert faulty.ended.wait(LIMIT_S)
        watch.remove(faulty)
        late = WaitingCall(-1000.0)
        watch.add(late)
        assert late.ended.wait(LIMIT_S)
    finally:
        watch.stop()
