"""The bus in memory is deterministic without a delivery of its own."""

from __future__ import annotations

import pytest

from localai.bus.memory import MemoryBus

pytestmark = pytest.mark.unit


def test_a_handler_has_run_when_publish_returns() -> None:
    bus, seen = MemoryBus(), []
    bus.subscribe("a.*", lambda subject, payload: seen.append((subject, payload)))
    bus.publish("a.b", {"n": 1})
    assert seen == [("a.b", {"n": 1})]


def test_a_handler_cannot_change_what_the_next_one_reads() -> None:
    bus, seen = MemoryBus(), []
    bus.subscribe("a", lambda subject, payload: payload.clear())  # type: ignore[attr-defined]
    bus.subscribe("a", lambda subject, payload: seen.append(payload))
    bus.publish("a", {"n": 1})
    assert seen == [{"n": 1}]


def test_a_handler_that_is_interrupted_does_not_stop_the_bus() -> None:
    bus, seen = MemoryBus(), []

    def interrupted(subject: str, payload: object) -> None:
        raise KeyboardInterrupt

    end = bus.subscribe("a", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bus.publish("a", {})
    end()
    bus.subscribe("a", lambda subject, payload: seen.append(subject))
    bus.publish("a", {})
    assert seen == ["a"]


def test_an_outage_loses_events_and_ends_with_a_resync() -> None:
    bus, seen, resyncs = MemoryBus(), [], []
    bus.subscribe("a", lambda subject, payload: seen.append(subject))
    bus.on_resync(lambda: resyncs.append(len(resyncs)))
    bus.disconnect()
    bus.publish("a", {})
    assert (seen, resyncs, bus.connected()) == ([], [0], False)
    bus.reconnect()
    assert (seen, resyncs, bus.connected()) == ([], [0, 1], True)
