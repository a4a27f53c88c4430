"""The real agent's table, operations, reports and stops, on a machine that is simulated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

from localai.errors import NotFound, OperationFailed, Replaced, StorageUnavailable
from localai.ids import JobId, NodeId
from localai.jobs.operation_rules import Cause, Order, Report, ReportAnswer, StopRequest
from localai.jobs.operations import WorkerMustDrop
from localai.nodes.credentials import hash_of
from localai.nodes.rules import Figures, Registration
from tests.simulator.history import ProcessFacts
from tests.simulator.machine import Group, Machine
from tests.simulator.network import NoAnswer
from tests.simulator.virtual_time import Hub, Process, Signal
from worker_agent.frontends import ClaimRefused, NoFrontend, Registered, Reply
from worker_agent.hooks import Hooks
from worker_agent.operations import Key, Operations
from worker_agent.processes.rules import Running, StartMove
from worker_agent.processes.supervisor import ModelProcess
from worker_agent.registration import register
from worker_agent.reports import Intervals, Reporter
from worker_agent.runner import OperationRun, Parts
from worker_agent.stops import StopResponder
from worker_agent.work import OperationStopped, Work

GIB = 1024**3


class NoDisk(PurePosixPath):
    """A path that nothing is ever at."""

    def mkdir(self, **_: Any) -> None:
        pass

    def resolve(self) -> NoDisk:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often the agent does what, in its own seconds."""

    report_s: float
    beat_s: float
    watch_s: float = 1.0
    kill_ttl_s: float = 90.0
    call_timeout_s: float = 10.0
    stop_bound_s: float = 15.0


class NeverStopped:
    """The event of an agent that nobody asks to end, which is waited for in virtual time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self._process.pass_time(seconds)
        return False


class VirtualWork(Work):
    """`Work` that waits in virtual time."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub, self._signal = hub, Signal(hub)

    def stop(self) -> None:
        self._stopped = True
        self._signal.nudge()

    def nudge(self) -> None:
        self._signal.nudge()

    def wait_for(self, predicate: Callable[[], bool], timeout_s: float) -> bool:
        until = self._hub.now + timeout_s
        while not self._stopped:
            if predicate():
                return True
            if self._hub.now >= until:
                return False
            self._signal.wait(until - self._hub.now)
        raise OperationStopped


class VirtualOperations(Operations):
    """The real table. What it waits for on other threads is looked for again and again instead."""

    def __init__(self, hub: Hub, **named: Any) -> None:
        super().__init__(**named)
        self._hub = hub

    def enter(self, key: Key) -> Work | None:
        if super().enter(key) is None:
            return None
        self._works[key] = work = VirtualWork(self._hub)
        return work

    def become_ready(self, key: Key, identity: str) -> bool:
        if not super().become_ready(key, identity):
            return False
        live = self._processes[self._get(key).process_instance or ""]
        group: Any = live.group
        group.facts.ready, group.facts.ready_though_ending = group.machine.now(), live.running.ending
        return True

    def start_move(self, key: Key, wait_s: float) -> StartMove:
        self._look_until(lambda: self._start_move(key) is not StartMove.WAIT, wait_s)
        return self._start_move(key)

    def wait_ended(self, key: Key, instance: str | None, timeout_s: float) -> bool:
        return self._look_until(lambda: self._has_ended(key, instance), timeout_s)

    def _look_until(self, holds: Callable[[], bool], timeout_s: float) -> bool:
        until = self._hub.now + timeout_s
        while not holds():
            if self._hub.now >= until:
                return False
            self._hub.pass_time(0.5)
        return True


class Supervisor:
    """Starts processes on the machine, with the steps of the start gate in their order."""

    def __init__(self, agent: AgentLife) -> None:
        self._agent = agent

    def start_model(
        self,
        order: Order,
        *,
        folder: object,
        environ: object,
        reads: object,
        gate: Callable[[Running, Group], bool],
        work: Work,
    ) -> ModelProcess:
        agent, machine, hub = self._agent, self._agent.machine, self._agent.hub
        facts = ProcessFacts(
            instance=agent.world.new_id(),
            job_id=order.job_id,
            op_generation=order.op_generation,
            model=order.model,
            slot=order.slot,
            node_id=machine.node_id,
            started=machine.now(),
            verified=agent.verified(order.job_id),
        )
        agent.write_down(facts.instance)
        hub.point("agent: journaled, not forked")
        group = machine.fork(agent, facts)
        hub.point("agent: forked, pid not journaled")
        agent.start_is_written(group)
        running = Running(
            process_instance=facts.instance,
            job_id=order.job_id,
            op_generation=order.op_generation,
            model=order.model,
            slot=order.slot,
            address=f"{machine.name}:{group.port}",
            pid=group.pid,
            secret=facts.secret,
        )
        agent.spawn(agent.reap, group)
        if not gate(running, group):
            machine.kill(group)
            raise OperationStopped
        if group.held:
            machine.release(group)
        hub.log(f"{machine.name}: process {facts.instance[-6:]} of {order.model}#{order.slot} starts")
        hub.point("agent: process released")
        return ModelProcess(group, running, group.port)  # type: ignore[arg-type]  # the face of a Group

    def wait_healthy(self, process: ModelProcess, *, probe: object, timeout_s: float, work: Work) -> None:
        work.wait_for(process.group.has_exited, self._agent.world.start_s())
        if process.group.has_exited():
            raise OperationFailed(Cause.START_FAILED, "the process ended before it answered")


class Loader:
    """`LoadModel` of a simulated backend."""

    def __init__(self, agent: AgentLife) -> None:
        self._agent = agent

    def model_options(self, order: Order, folder: object) -> Any:
        return SimpleNamespace(Model=order.model)

    def answers_health(self, port: int, secret: str | None = None) -> bool:
        return secret is not None

    def load(
        self,
        port: int,
        options: object,
        *,
        order: Order,
        group: Group,
        secret: str | None,
        work: Work,
        sent: Callable[[], object],
    ) -> None:
        world = self._agent.world
        work.wait_for(group.has_exited, world.load_s())
        if group.has_exited():
            raise OperationFailed(Cause.PROCESS_ENDED, "the process ended during LoadModel")
        if world.refuses():
            raise OperationFailed(Cause.LOAD_REFUSED, "the backend refused the model")


class Fetcher:
    """Bytes that arrive slowly, and now and then wrong; usable only once their digest matched."""

    def __init__(self, agent: AgentLife) -> None:
        self._agent = agent

    def require_room(self, folder: object, files: Sequence[Any]) -> None:
        pass

    def fetch(
        self, folder: object, staged: Any, *, stall_window_s: float, moved: Callable[[int], None], work: Work
    ) -> None:
        world = self._agent.world
        for tenth in (3, 7, 10):
            work.pause(world.staging_s() / 3)
            moved(staged.size * tenth // 10)
        self._agent.arrived(staged, right=not world.corrupts())


class HttpCalls:
    """`Frontends`: each try goes to some web process, and knows when it was sent."""

    def __init__(self, agent: AgentLife) -> None:
        self._agent = agent

    def claim(self, registered: Registered, job_id: str, op_generation: int, *, seq: int) -> Reply:
        node, incarnation = NodeId(registered.node_id), registered.incarnation

        def ask(services: Any) -> Order:
            order: Order = services.operations.claim(node, incarnation, JobId(job_id), op_generation, seq)
            return order

        try:
            order, sent_at = self._ask(lambda: ask)
        except WorkerMustDrop as error:
            raise ClaimRefused(error.message) from None
        except Replaced:
            raise ClaimRefused("replaced") from None
        self._agent.hub.point("agent: grant received")
        return Reply(200, order.to_json(), sent_at)

    def report(self, node_id: str, build: Callable[[], Report]) -> tuple[ReportAnswer, float]:
        def make() -> Callable[[Any], ReportAnswer]:
            report = build()
            return lambda services: services.operations.report(NodeId(node_id), report)

        answer, sent_at = self._ask(make)
        self._agent.hub.point("agent: report answered")
        return answer, sent_at

    def heartbeat(self, node_id: str, body: Any) -> str:
        status, _ = self._ask(
            lambda: lambda services: services.nodes.heartbeat(node_id, body["incarnation"], body["figures"])
        )
        return str(status)

    def register(self, body: Mapping[str, Any]) -> Registered:
        registration = Registration(**body)
        row, _ = self._ask(lambda: lambda services: services.nodes.register(registration))
        return Registered(row.id, row.name, row.status, row.incarnation, row.node_token)

    def _ask(self, make: Callable[[], Callable[[Any], Any]]) -> tuple[Any, float]:
        agent = self._agent
        for web in agent.world.webs_in_turn():
            sent_at, ask = agent.clock(), make()
            agent.hub.point("agent: question ready")
            try:
                return agent.world.http(agent, web, ask, agent.pace.call_timeout_s), sent_at
            except (NoAnswer, StorageUnavailable):
                continue
        raise NoFrontend


class AgentLife(Process):
    """One life of an agent: from the death of what an older one left to its own end."""

    operations_class: type[VirtualOperations] = VirtualOperations

    def __init__(self, world: Any, machine: Machine, pace: Pace, **clock: float) -> None:
        super().__init__(world.hub, machine.name, **clock)
        self.world, self.machine, self.pace = world, machine, pace
        self._news = Signal(self.hub)
        self.calls = HttpCalls(self)
        self.registered: Registered | None = None
        self._wrong: set[str] = set()
        self.operations = self.operations_class(
            self.hub, kill_ttl_s=pace.kill_ttl_s, clock=self.clock, changed=self._news.set
        )

    def begin(self) -> None:
        """Kill leftovers, register, then take orders."""
        self.machine.kill_leftovers()
        self.hub.point("agent: leftovers dead, not registered")
        body = {
            "name": self.machine.name,
            "figures": Figures(**self.world.room()),
            "max_replicas_per_model": 2,
            "secret_hash": hash_of(f"secret of {self.machine.name}"),
        }
        self.registered = register(self.calls, body, NeverStopped(self))  # type: ignore[arg-type]  # their virtual forms
        assert self.registered is not None
        self.machine.node_id = NodeId(self.registered.node_id)
        self.hub.log(f"{self.name} is incarnation {self.registered.incarnation}")
        self.reporter = Reporter(
            frontends=self.calls,  # type: ignore[arg-type]  # the same calls over another network
            operations=self.operations,
            registered=self.registered,
            intervals=Intervals(self.pace.report_s, self.pace.beat_s),
            news=self._news,  # type: ignore[arg-type]  # not used by what is driven here
            replaced=self._replaced,
        )
        self._stops = StopResponder(
            self.operations,
            incarnation=self.registered.incarnation,
            bound_s=self.pace.stop_bound_s,
            report_now=self._news.set,
        )
        self._parts = self._make_parts()
        for loop in (self._report, self._watch, self._beat):
            self.spawn(loop)
        self.world.agent_is_up(self)

    # What reaches it from outside

    def take_order(self, job_id: str, op_generation: int) -> None:
        """A message of the node's queue."""
        key = (job_id, op_generation)
        work = self.operations.enter(key)
        if work is not None:
            self.hub.point("agent: entered, not claimed")
            self.spawn(self._operate, key, work)

    def answer_stop(self, payload: Any) -> Any:
        return self._stops.stop(StopRequest.from_json(payload)).to_json()

    def reap(self, group: Group) -> None:
        """The reaper's thread: tells the table when a whole group has ended."""
        group.gone.wait()
        self.hub.point("agent: group ended, table not told")
        self.machine.journal.discard(group.instance)
        self.operations.process_gone(group.instance)

    # Seams of the start gate and of staging

    def write_down(self, instance: str) -> None:
        self.machine.journal.add(instance)

    def start_is_written(self, group: Group) -> None:
        """Pid and start time are on disk: from here on the launcher may run."""

    def arrived(self, staged: Any, *, right: bool) -> None:
        """A file is here, verified; a wrong one is never renamed into place."""
        if not right:
            raise OperationFailed(Cause.DIGEST_MISMATCH, f"{staged.path} is not what was promised")

    def accept_unverified(self, job_id: str) -> None:
        self._wrong.add(job_id)

    def verified(self, job_id: str) -> bool:
        return job_id not in self._wrong

    # Its threads

    def _operate(self, key: Key, work: Work) -> None:
        try:
            OperationRun(self._parts, key, work).run()
        finally:
            if self.alive:
                self.operations.thread_done(key, work)

    def _report(self) -> None:
        retry_s = 0.5
        while True:
            self._news.clear()
            taken = self.reporter.report_once()
            busy = self.operations.incomplete()
            if taken:
                retry_s = 0.5
                self._news.wait(self.pace.report_s if busy else self.pace.beat_s)
            else:
                self.pass_time(min(retry_s, self.pace.report_s))
                retry_s = min(retry_s * 2, self.pace.report_s)

    def _watch(self) -> None:
        while True:
            self.pass_time(self.pace.watch_s if self.operations.incomplete() else self.pace.watch_s * 5)
            self.operations.watch()

    def _beat(self) -> None:
        assert self.registered is not None
        while True:
            self.pass_time(self.pace.beat_s * 2)
            body = {"incarnation": self.registered.incarnation, "figures": Figures(**self.world.room())}
            try:
                self.calls.heartbeat(self.registered.node_id, body)
            except NoFrontend:
                continue
            except (Replaced, NotFound) as error:
                self._replaced(error.message)

    def _replaced(self, why: str) -> None:
        self.kill(f"replaced: {why}")

    def _make_parts(self) -> Parts:
        parts: dict[str, Any] = {
            "registered": self.registered,
            "frontends": self.calls,
            "operations": self.operations,
            "installer": SimpleNamespace(ensure=self._install),
            "fetcher": Fetcher(self),
            "supervisor": Supervisor(self),
            "loader": Loader(self),
            "models": NoDisk("/nowhere"),
            "environ": lambda order: {},
            "kill_ttl_s": self.pace.kill_ttl_s,
            "last_seq": self.reporter.last_seq,
            "clock": self.clock,
            "hooks": Hooks(
                granted=lambda _: self.hub.point("agent: granted, nothing begun"),
                loaded=lambda _: self.hub.point("agent: loaded, READY not asked for"),
            ),
        }
        return Parts(**parts)

    def _install(self, order: Order, *, said: Callable[[str], None], work: Work) -> NoDisk:
        work.pause(self.world.install_s())
        return NoDisk("/nowhere")
