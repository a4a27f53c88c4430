"""Races of the counted path, forced at its named points, over real gRPC processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from localai.inference.channels import Channels
from localai.inference.client import GrpcInference
from localai.inference.ports import Endpoint
from localai.loads.waiters import Waiters
from localai.models.config import ModelConfig, parse_config
from localai.routing.rules import Lease
from localai.routing.table import RoutingTable
from protos import backend_pb2
from tests.fakes.grpc_backend import GrpcBackend
from tests.fakes.inference import Script, says
from tests.fakes.loads import FakeLoads
from tests.fakes.routing import FakeClock, FakeSnapshot, Replica
from tests.fakes.web import Feed, Retired
from web.client_watch import ClientWatch
from web.serving import Serving, Signals

pytestmark = pytest.mark.integration

CONFIG: ModelConfig = parse_config({"name": "m", "backend": "fault"})


class AtPick(Signals):
    """Runs a test's code between the pick and the send, once."""

    def __init__(self) -> None:
        self.then = lambda: None

    def picked(self, endpoint: Endpoint) -> None:
        then, self.then = self.then, lambda: None
        then()


class CountedPath:
    """The counted path with real connections; rows and loads are the test's."""

    def __init__(self) -> None:
        self.clock, self.signals, self.loads = FakeClock(), AtPick(), FakeLoads()
        self.stack = ExitStack()
        self.inference = GrpcInference(Channels(vouch=self.vouches))
        self.table = RoutingTable(lease_ttl_s=90, serve_stale=True, forget=self.inference.forget, clock=self.clock)
        self.table.hold(Lease.granted(self.clock(), 90))
        waiters = Waiters(self.loads, self.table, lambda: True, wait_s=0.05, poll_interval_s=30)
        self.feed = Feed()
        self.serving = Serving(self.table, self.feed, waiters, self.inference, Retired(), signals=self.signals)

    def vouches(self, endpoint: Endpoint) -> bool:
        return self.table.vouches(endpoint)

    def backend(self, script: Script, port: int = 0) -> GrpcBackend:
        backend = GrpcBackend(script, port=port)
        self.stack.callback(backend.stop)
        return backend

    def route(self, *backends: GrpcBackend) -> None:
        replicas = tuple(
            Replica(
                replica_id=f"r{slot}",
                slot=slot,
                address=backend.endpoint.address,
                process_instance=backend.endpoint.process_instance,
            )
            for slot, backend in enumerate(backends)
        )
        self.table.apply(FakeSnapshot(self.table.version + 1, replicas), asked_at=self.clock())

    def ask(self) -> bytes:
        return self.serving.predict(CONFIG, backend_pb2.PredictOptions(), ClientWatch(None)).reply.message


@pytest.fixture
def path() -> Iterator[CountedPath]:
    path = CountedPath()
    with path.stack:
        yield path
    path.inference.close()


@pytest.mark.parametrize("dialled_before", [True, False])
def test_c22_picked_then_the_port_is_given_to_another_model_then_sent(path: CountedPath, dialled_before: bool) -> None:
    first, spare = path.backend(says("first")), path.backend(says("spare"))
    path.route(first)
    if dialled_before:
        assert path.ask() == b"first"
    others: list[GrpcBackend] = []

    def the_port_changes_hands() -> None:
        first.stop()
        others.append(path.backend(says("from another model"), first.port))
        if not dialled_before:
            # A port rests for longer than a lease: so much time has passed, and no rows were read since.
            path.clock.advance(120)
            path.table.hold(Lease.granted(path.clock(), 90))

    path.signals.then = the_port_changes_hands

    def refresh(timeout_s: float) -> bool:
        path.route(spare)
        return True

    path.feed.refresh = refresh  # type: ignore[method-assign]
    assert path.ask() == b"spare"
    assert others and others[0].asked == []


def test_rt_02_a_request_that_meets_a_vanishing_replica_leaves_no_count(path: CountedPath) -> None:
    first, spare = path.backend(says("first")), path.backend(says("spare"))
    path.route(first, spare)
    path.signals.then = lambda: path.route(spare)
    assert path.ask() in (b"first", b"spare")
    assert path.table.in_flight(first.endpoint) == path.table.in_flight(spare.endpoint) == 0


def test_a_drained_replica_finishes_the_request_it_has(path: CountedPath) -> None:
    """Rows that take a replica away close its connection only after its last request."""
    first = path.backend(says("first"))
    path.route(first)
    assert path.ask() == b"first"
    path.signals.then = path.route
    assert path.ask() == b"first"
