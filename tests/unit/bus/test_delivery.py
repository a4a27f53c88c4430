"""The delivery of a process of plain threads."""

from __future__ import annotations

import threading

import pytest

from localai.bus.delivery import ThreadDelivery, delivery_of_this_process

pytestmark = pytest.mark.unit

LIMIT_S = 30


def test_posted_calls_run_in_order_and_a_failing_one_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    delivery, ran = ThreadDelivery(), []

    def fail() -> None:
        raise RuntimeError("on purpose")

    delivery.post(lambda: ran.append(1))
    delivery.post(fail)
    delivery.post(lambda: ran.append(2))
    delivery.close()
    assert ran == [1, 2]
    assert "on purpose" in caplog.text


def test_a_full_mailbox_takes_only_what_must_go_in() -> None:
    delivery, release, ran = ThreadDelivery(limit=2), threading.Event(), []
    entered = threading.Event()

    def block() -> None:
        entered.set()
        release.wait(LIMIT_S)

    delivery.post(block)
    assert entered.wait(LIMIT_S)
    taken = [delivery.post(lambda: ran.append("event")) for _ in range(4)]
    assert taken == [True, True, False, False]
    assert delivery.post(lambda: ran.append("resync"), always=True)
    release.set()
    delivery.close()
    assert ran == ["event", "event", "resync"]


def test_closing_from_within_a_posted_call_does_not_wait_for_itself() -> None:
    delivery, done = ThreadDelivery(), threading.Event()

    def close() -> None:
        delivery.close()
        done.set()

    delivery.post(close)
    assert done.wait(LIMIT_S)


def test_a_spawned_call_runs_beside_the_posted_ones() -> None:
    delivery, release, ran = ThreadDelivery(), threading.Event(), threading.Event()
    delivery.post(lambda: release.wait(LIMIT_S))
    delivery.spawn(ran.set)
    assert ran.wait(LIMIT_S)
    release.set()
    delivery.close()


def test_a_process_of_plain_threads_gets_threads() -> None:
    delivery = delivery_of_this_process()
    assert isinstance(delivery, ThreadDelivery)
    delivery.close()
