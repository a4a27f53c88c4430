"""What every bus promises about events."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from localai.bus import subjects
from tests.contract.bus.conftest import World
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.contract

Seen = list[tuple[str, dict[str, Any]]]


def collect(into: Seen):  # type: ignore[no-untyped-def]
    return lambda subject, payload: into.append((subject, dict(payload)))


def test_a_subscriber_receives_subject_and_payload_of_each_event(world: World) -> None:
    seen: Seen = []
    world.node.subscribe(subjects.ROUTING_CHANGED, collect(seen))
    world.settle()
    world.frontend.publish(subjects.ROUTING_CHANGED, {"version": 2**60, "text": "grüße", "parts": [1, None]})
    eventually(lambda: seen)
    assert seen == [("routing.changed", {"version": 2**60, "text": "grüße", "parts": [1, None]})]


def test_a_pattern_receives_what_it_matches_and_nothing_else(world: World) -> None:
    results: Seen = []
    everything: Seen = []
    world.node.subscribe(subjects.JOB_RESULTS, collect(results))
    world.node.subscribe("jobs.>", collect(everything))
    world.settle()
    world.frontend.publish(subjects.job_progress("one"), {})
    world.frontend.publish(subjects.job_result("one"), {})
    world.frontend.publish(subjects.ROUTING_CHANGED, {})
    world.frontend.publish(subjects.job_result("two"), {})
    eventually(lambda: len(everything) == 3 and len(results) == 2)
    assert [subject for subject, _ in results] == ["jobs.one.result", "jobs.two.result"]


def test_a_publisher_hears_its_own_events(world: World) -> None:
    seen: Seen = []
    world.frontend.subscribe(subjects.NODES_CHANGED, collect(seen))
    world.settle()
    world.frontend.publish(subjects.NODES_CHANGED, {})
    eventually(lambda: seen)
    assert seen == [("nodes.changed", {})]


def test_an_ended_subscription_receives_nothing_more(world: World) -> None:
    ended: Seen = []
    kept: Seen = []
    end = world.node.subscribe("jobs.*.result", collect(ended))
    world.node.subscribe("jobs.*.result", collect(kept))
    world.settle()
    end()
    end()
    world.frontend.publish(subjects.job_result("one"), {})
    eventually(lambda: kept)
    assert ended == []


def test_a_failing_handler_stops_neither_other_handlers_nor_later_events(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Seen = []

    def fail(subject: str, payload: object) -> None:
        raise RuntimeError("on purpose")

    world.node.subscribe("jobs.*.result", fail)
    world.node.subscribe("jobs.*.result", collect(seen))
    world.settle()
    world.frontend.publish(subjects.job_result("one"), {})
    world.frontend.publish(subjects.job_result("two"), {})
    eventually(lambda: len(seen) == 2)
    eventually(lambda: world.node.counters.handler_errors == 2)
    assert "on purpose" in caplog.text


def test_handlers_run_one_at_a_time_and_in_order(world: World) -> None:
    inside = threading.Lock()
    overlapped = threading.Event()
    numbers: list[int] = []

    def handle(subject: str, payload: dict[str, Any]) -> None:
        if not inside.acquire(blocking=False):
            overlapped.set()
            return
        numbers.append(payload["number"])
        inside.release()

    world.node.subscribe("jobs.*.progress", handle)  # type: ignore[arg-type]
    world.settle()
    for number in range(500):
        world.frontend.publish(subjects.job_progress("one"), {"number": number})
    eventually(lambda: len(numbers) == 500 or overlapped.is_set())
    assert not overlapped.is_set()
    assert numbers == list(range(500))


def test_an_event_published_by_a_handler_arrives_after_that_handler(world: World) -> None:
    steps: list[str] = []

    def first(subject: str, payload: object) -> None:
        world.node.publish(subjects.job_result("one"), {})
        steps.append("first ends")

    world.node.subscribe("jobs.*.progress", first)
    world.node.subscribe("jobs.*.result", lambda subject, payload: steps.append("second"))
    world.settle()
    world.frontend.publish(subjects.job_progress("one"), {})
    eventually(lambda: len(steps) == 2)
    assert steps == ["first ends", "second"]


def test_bu_04_after_an_outage_subscriptions_live_and_everybody_reads_rows_again(world: World) -> None:
    seen: Seen = []
    resyncs: list[bool] = []
    world.node.subscribe(subjects.ROUTING_CHANGED, collect(seen))
    world.node.on_resync(lambda: resyncs.append(True))
    world.settle()
    before = len(resyncs)
    world.cut()
    assert not world.node.connected()
    world.mend()
    eventually(lambda: len(resyncs) > before, "a resync after the outage")
    eventually(world.frontend.connected, "the publisher's connection")
    world.frontend.publish(subjects.ROUTING_CHANGED, {"version": 2})
    eventually(lambda: seen)


def test_who_asks_for_a_resync_while_connected_gets_one(world: World) -> None:
    called = threading.Event()
    world.node.on_resync(called.set)
    assert called.wait(LIMIT_S)


def test_publishing_during_an_outage_and_after_the_end_raises_nothing(world: World) -> None:
    world.cut()
    world.frontend.publish(subjects.ROUTING_CHANGED, {})
    world.frontend.close()
    world.frontend.publish(subjects.ROUTING_CHANGED, {})
    assert world.frontend.counters.dropped >= 1
    assert not world.frontend.connected()
