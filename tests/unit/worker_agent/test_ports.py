"""Which port is handed out next, and what is said when there is none."""

from __future__ import annotations

import pytest

from localai.errors import OperationFailed
from localai.jobs.operation_rules import Cause
from tests.unit.worker_agent.factories import Clock
from worker_agent.processes.port_range import PortBounds, PortRange

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("base", "top", "highest"), [(50051, 50150, 50150), (50051, 70000, 65535), (50051, 100, 65535), (5, 5, 5)]
)
def test_cf_04_a_top_out_of_range_degrades_and_never_wedges(base: int, top: int, highest: int) -> None:
    assert PortBounds.of(base, top) == PortBounds(base, highest)


def ports(*, top: int = 12, clock: Clock | None = None, busy: set[int] | None = None, **more: object) -> PortRange:
    taken = busy if busy is not None else set()
    return PortRange(
        PortBounds(10, top),
        quarantine_s=120.0,
        clock=clock or Clock(),
        free=lambda port: port not in taken,
        **more,  # type: ignore[arg-type]
    )


def test_ports_go_upward_then_the_least_recently_used_one_that_has_rested() -> None:
    clock = Clock()
    found = ports(clock=clock)
    assert [found.take() for _ in range(3)] == [10, 11, 12]
    found.release(11)
    clock.now += 1
    found.release(10)
    clock.now += 119
    assert found.take() == 11
    clock.now += 1
    assert found.take() == 10


def test_a_port_rests_even_when_it_is_the_only_one_left() -> None:
    found = ports(top=10)
    found.release(found.take())
    with pytest.raises(OperationFailed) as caught:
        found.take()
    assert caught.value.cause == Cause.NO_PORT
    assert caught.value.message == (
        "no free gRPC port in range: 10-10 is fully consumed by 0 running backend(s) and 1 port(s) still in "
        "quarantine; raise LOCALAI_GRPC_MAX_PORT to widen the range"
    )


def test_a_port_that_something_listens_on_is_skipped_and_looked_at_again_later() -> None:
    busy = {10}
    found = ports(busy=busy, top=11)
    assert found.take() == 11
    busy.clear()
    assert found.take() == 10


def test_ports_of_an_earlier_incarnation_rest_first() -> None:
    clock = Clock()
    found = ports(clock=clock, used_before=[10, 11])
    assert found.take() == 12
    clock.now += 120
    assert found.take() == 10


def test_a_port_outside_the_range_is_never_handed_out() -> None:
    clock = Clock()
    found = ports(clock=clock, top=10, used_before=[9])
    clock.now += 500
    assert found.take() == 10
    with pytest.raises(OperationFailed):
        found.take()


def test_releasing_twice_does_not_renew_the_rest() -> None:
    clock = Clock()
    found = ports(clock=clock, top=10)
    port = found.take()
    found.release(port)
    clock.now += 120
    found.release(port)
    assert found.take() == port
