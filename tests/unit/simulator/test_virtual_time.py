"""Tasks on the virtual clock: what a crash and a freeze do to code between two of its steps."""

from __future__ import annotations

import pytest

from tests.simulator.virtual_time import Hub, Process, Signal

pytestmark = pytest.mark.unit


def test_a_killed_process_does_nothing_more_not_even_in_its_finally() -> None:
    hub, said = Hub(1), []
    process = Process(hub, "p")

    def work() -> None:
        try:
            hub.pass_time(10)
            said.append("went on")
        finally:
            hub.pass_time(1)
            said.append("cleaned up")

    process.spawn(work)
    hub.call(process.kill, 5.0)
    hub.run(60)
    assert said == []


def test_a_frozen_process_goes_on_where_it_was_when_it_thaws() -> None:
    hub, at = Hub(1), []
    process = Process(hub, "p")

    def work() -> None:
        hub.pass_time(3)
        at.append(hub.now)

    process.spawn(work)
    hub.call(lambda: process.freeze(40.0), 1.0)
    hub.run(60)
    assert at == [41.0]


def test_a_machine_s_clock_runs_at_its_own_rate() -> None:
    hub, at = Hub(1), []
    slow = Process(hub, "slow", rate=0.5, offset=100.0)

    def work() -> None:
        slow.pass_time(5)
        at.append((hub.now, slow.clock()))

    slow.spawn(work)
    hub.run(60)
    assert at == [(10.0, 105.0)]


def test_an_answer_that_lay_in_a_buffer_while_its_reader_was_frozen_is_read() -> None:
    hub, got = Hub(1), []
    process, answer = Process(hub, "p"), Signal(hub)
    process.spawn(lambda: got.append(answer.wait(10.0)))
    hub.call(answer.set, 2.0)
    hub.call(lambda: process.freeze(100.0), 1.0)
    hub.run(200)
    assert got == [True]
