"""Control processes and web processes: the real services over rows that a network lies before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from localai.errors import NodeQuiet, NoRoute, Replaced, StorageUnavailable, WorkerRefused
from localai.ids import JobId, NodeId, OwnerId
from localai.jobs.announce import Announcer
from localai.jobs.cancels import CancelService
from localai.jobs.cleanup_steps import CleanupSteps
from localai.jobs.kinds import MODEL_INSTALL, MODEL_LOAD, REPLICA_CLEANUP
from localai.jobs.leases import LeaseBook
from localai.jobs.operations import OperationService
from localai.jobs.owner import Owner
from localai.jobs.service import JobService
from localai.jobs.stepper import JobStepper
from localai.jobs.stops import StopService
from localai.jobs.sweeping import Sweep
from localai.jobs.watches import Watch
from localai.loads.budget_rules import Budgets
from localai.loads.cancels import LoadCancels
from localai.loads.install_steps import InstallSteps
from localai.loads.load_steps import LoadSteps
from localai.loads.ports import LoadPlan
from localai.loads.service import LoadService
from localai.nodes.service import NodeService
from localai.placement.filters import Limits
from localai.replicas.cleaning import Cleaning
from tasks.sweep import Later
from tests.simulator.network import NoAnswer, Rows
from tests.simulator.virtual_time import Process, Signal

STALE_S = 120.0


class Hints:
    """`Events` over the lossy network, by exact subject."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def publish(self, subject: str, payload: Mapping[str, Any]) -> None:
        network, hub = self._world.network, self._world.hub
        for handler in self._world.listening.get(subject, ()):
            for delay_s in network.delays(network.weather.late_s / 8):
                hub.call(partial(handler, subject, payload), delay_s)

    def subscribe(self, pattern: str, handler: Callable[[str, Any], None]) -> Callable[[], None]:
        listening = self._world.listening
        listening[pattern] = (*listening.get(pattern, ()), handler)

        def end() -> None:
            listening[pattern] = tuple(other for other in listening[pattern] if other != handler)

        return end


class Queue:
    """`Wakeups` over the lossy network."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def wake_control(self, job_id: JobId, generation: int) -> None:
        for delay_s in self._world.network.delays(self._world.network.weather.late_s):
            self._world.hub.call(lambda: self._world.wake_any_control(job_id, generation), delay_s)

    def send_order(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None:
        for delay_s in self._world.network.delays(self._world.network.weather.late_s):
            self._world.hub.call(lambda: self._world.order_arrived(node_id, job_id, op_generation), delay_s)

    def forget_node(self, node_id: NodeId) -> None:
        pass


class Link:
    """`NodeLink` of one process."""

    def __init__(self, world: Any, process: Process) -> None:
        self._world, self._process = world, process

    def request(self, node_id: str, operation: str, payload: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        world = self._world
        world.hub.point("stop: read, not sent")
        world.stop_sent(payload)
        agent = world.agent_of(node_id)
        if agent is None:
            raise NoRoute
        try:
            answer: Mapping[str, Any] = world.network.call(
                self._process, agent, lambda: agent.answer_stop(payload), timeout_s
            )
        except NoAnswer:
            raise NodeQuiet from None
        except (StorageUnavailable, Replaced):
            raise
        except Exception as error:  # noqa: BLE001  handed to who asked
            raise WorkerRefused(str(error)) from None
        world.hub.point("stop: answered, not written")
        return answer


class Services:
    """What a web process offers to agents and clients, over its own way to the rows."""

    def __init__(self, world: Any, process: Process) -> None:
        def rows(store: object) -> Any:
            return Rows(store, process, world.network)

        events: Any = Hints(world)
        announcer = Announcer(Queue(world), events)
        jobs, loads = rows(world.jobs), rows(world.load_rows)
        self.operations = OperationService(
            rows(world.operation_rows), jobs, announcer, env_of=lambda model, revision: {}
        )
        self.loads = LoadService(loads, loads, announcer)
        self.jobs = JobService(jobs, jobs, announcer)
        watch: Any = partial(Watch, clock=process.clock, signal=partial(Signal, process.hub))
        cancels = CancelService(rows(world.cancel_rows), jobs, announcer, events, watch=watch)
        self.cancels, self.load_cancels = cancels, LoadCancels(loads, jobs, cancels)
        self.nodes: NodeService[Any] = NodeService(
            rows(world.node_rows),
            events,
            tell_moved=lambda moved: announcer.moved(*moved),
            checkpoint_s=30.0,
            stale_after_s=STALE_S,
            doubt_s=20.0,
            auto_approve=True,
        )


class Web(Process):
    """One web process."""

    def __init__(self, world: Any, name: str) -> None:
        super().__init__(world.hub, name)
        self.services = Services(world, self)


class Pool:
    """An executor whose threads are tasks of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def submit(self, work: Callable[..., object], *arguments: Any) -> None:
        self._process.spawn(work, *arguments)


class Plans:
    """What the configs say; a world edits them."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def plan(self, model: str, revision: str | None) -> LoadPlan:
        plan: LoadPlan = self._world.plan(model)
        return plan

    def holds(self, model: str, revision: str | None) -> bool:
        return self.plan(model, revision).revision == revision


class Installs:
    """Bytes on their way to this side."""

    def __init__(self, world: Any) -> None:
        self._world = world

    def install(self, model: str, progress: Callable[[Any], None], cancelled: Callable[[], bool]) -> None:
        for _ in range(3):
            self._world.hub.pass_time(self._world.fetch_s() / 3)
            self._world.hub.point("install: bytes arrived")
            if cancelled():
                return
        self._world.fetched(model)


class ControlProcess(Process):
    """One control process: keeper, sweep, and the steps of every kind."""

    steps_class: type[LoadSteps] = LoadSteps
    leases_class: type[LeaseBook] = LeaseBook

    def __init__(self, world: Any, number: int, **clock: float) -> None:
        self.owner_id = OwnerId(f"control-{number}")
        super().__init__(world.hub, str(self.owner_id), **clock)
        self.world = world

        def rows(store: object) -> Any:
            return Rows(store, self, world.network)

        events: Any = Hints(world)
        self.announcer = Announcer(Queue(world), events)
        jobs, operations, loads = rows(world.jobs), rows(world.operation_rows), rows(world.load_rows)
        leases = self.leases_class(world.windows.lease_s, self.clock)
        self.owner = Owner(self.owner_id, jobs, leases, self.announcer)
        link: Any = Link(world, self)
        pool: Any = Pool(self)
        self.later = Later(pool)
        self.stops = StopService(link, timeout_s=17.0)
        self.stepper = JobStepper(
            jobs, self.owner, self._steps(jobs, operations, loads), stop=self.later.stop(self.stops.stop_operation)
        )
        replicas: Any = rows(world.replica_rows)
        self.cleaning = Cleaning(replicas, jobs, self.announcer)
        node_rows = rows(world.node_rows)
        self.sweep = Sweep(
            rows(world.sweeps),
            jobs,
            self.owner,
            self.stepper,
            self.announcer,
            step_later=self.later.step(self.stepper.step),
            stop_later=self.later.stop(self.stops.stop_operation),
            also={
                "drained replicas": self.cleaning.run,
                "silent nodes": lambda: node_rows.mark_silent(STALE_S),
                "returned nodes": lambda: node_rows.mark_returned(STALE_S),
            },
        )

    def begin(self) -> None:
        self.spawn(self._keep)
        self.spawn(self._sweep, delay_s=self.hub.draw.random() * self.world.sweep_s)

    def end(self) -> None:
        """In good order, as the process of `tasks.control` does when it is asked to."""
        with suppress(StorageUnavailable):
            self.owner.release()
        self.kill("ended")

    def _keep(self) -> None:
        while True:
            self.pass_time(self.world.renew_s)
            try:
                self.owner.renew()
            except StorageUnavailable:
                continue

    def _sweep(self) -> None:
        while True:
            self.sweep.run_once()
            self.pass_time(self.world.sweep_s)

    def _steps(self, jobs: Any, operations: Any, loads: Any) -> dict[str, Any]:
        world = self.world
        plans: Any = Plans(world)
        pool: Any = Pool(self)
        return {
            MODEL_LOAD: self.steps_class(
                self.owner,
                loads,
                plans,
                self.announcer,
                reads=jobs,
                intake=jobs,
                windows=world.windows,
                budgets=Budgets(),
                limits=Limits(stale_after_s=STALE_S),
            ),
            MODEL_INSTALL: InstallSteps(self.owner, jobs, Installs(world), self.announcer, pool=pool, clock=self.clock),
            REPLICA_CLEANUP: CleanupSteps(
                self.owner,
                self.stops,
                world.windows,
                elsewhere=self.later.run,
                clock=self.clock,
            ),
        }
