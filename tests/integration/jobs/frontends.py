"""Frontends as their routing tables and feeds, which a test steps, and what a test of drains does with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from localai.ids import FrontendId
from localai.inference.ports import Endpoint
from localai.jobs.job import Job
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.ports import JobFilter
from localai.routing.feed import Intervals, Process, RoutingFeed, Signals
from localai.routing.picks import Pick
from localai.routing.ports import Snapshot
from localai.routing.table import RoutingTable
from tests.integration.world import Agent, Control, World, serving_load


class NoConnections:
    """The processes of these tests are rows; nobody calls them."""

    def forget(self, endpoint: Endpoint) -> None: ...

    def probe(self, endpoint: Endpoint) -> bool:
        return False


class AtPoint(Signals):
    """Runs a test's code at a named point, once."""

    def __init__(self) -> None:
        self.then_read: Callable[[], object] = lambda: None
        self.then_counted: Callable[[], object] = lambda: None

    def read(self, snapshot: Snapshot) -> None:
        then, self.then_read = self.then_read, lambda: None
        then()

    def counted(self, replica_id: str, in_flight: int) -> None:
        then, self.then_counted = self.then_counted, lambda: None
        then()


@dataclass
class Frontend:
    """One web process: its table and its feed, stepped by the test."""

    world: World
    signals: AtPoint = field(default_factory=AtPoint)
    ids: list[FrontendId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.table = RoutingTable(lease_ttl_s=90, serve_stale=True, forget=lambda _: None)
        self.feed = RoutingFeed(
            self.table,
            self.world.replicas,
            self.world.frontends,
            NoConnections(),
            self.world.drains,
            process=Process(host="test", pid=1, url=None),
            intervals=Intervals(lease_ttl_s=90, renew_s=5, poll_s=2),
            on_registered=self.ids.append,
            signals=self.signals,
        )
        self.feed.step()

    def pick(self, model: str) -> Pick:
        pick = self.table.pick(model)
        assert pick is not None
        return pick

    def vanish(self) -> None:
        """The process is killed, and its lease is over."""
        self.world.sql(
            "UPDATE frontends SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = %(id)s",
            id=self.ids[-1],
        )


def serving(world: World, control: Control, agent: Agent, model: str, *frontends: Frontend) -> str:
    """A loaded model that every frontend routes to; its instance."""
    _, _, instance = serving_load(world, control, [agent], model)
    for frontend in frontends:
        frontend.feed.step()
        assert frontend.table.holds(model)
    return instance


def cleanups(world: World, instance: str) -> list[Job]:
    return list(world.jobs.list(JobFilter(kind=REPLICA_CLEANUP, subject=instance)))


def stopped_by(world: World, agent: Agent) -> list[object]:
    """The instances the node was asked to stop; it ends each."""
    asked: list[object] = []

    def stop(payload: dict[str, object]) -> dict[str, object]:
        asked.append(payload["process_instance"])
        return agent.obey(payload)

    world.bus.serve(agent.id, "model.stop", stop)
    return asked


def request_unload(world: World, model: str) -> str:
    unload = world.unloads.request(model)
    assert unload.job_id is not None
    return unload.job_id
