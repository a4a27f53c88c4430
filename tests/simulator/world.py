"""One schedule: a database, control and web processes, machines with agents, clients, and what goes wrong."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId, NodeId
from localai.jobs.event_rules import (
    Adopt,
    Claim,
    Event,
    Fail,
    Finish,
    FinishWork,
    Lapse,
    Place,
    Progress,
    Release,
    Renew,
    Reported,
    Requeue,
    Resend,
)
from localai.jobs.job import Job, StopState, Windows
from localai.jobs.operation_rules import StagedFile
from localai.loads.ports import LoadPlan
from tests.simulator.agents import GIB, AgentLife, Pace
from tests.simulator.clients import Client
from tests.simulator.history import (
    Adopted,
    Answered,
    Away,
    Bounds,
    CancelTold,
    CauseRead,
    History,
    JobFacts,
    Registered,
    Revised,
    Routed,
    StaleWrite,
    StopSent,
    TakenAway,
)
from tests.simulator.machine import Machine
from tests.simulator.memory_cancels import MemoryCancels
from tests.simulator.memory_jobs import MemoryJobs
from tests.simulator.memory_loads import MemoryLoads
from tests.simulator.memory_nodes import MemoryNodes, MemoryReplicas
from tests.simulator.memory_operations import MemoryOperations
from tests.simulator.memory_sweeps import MemorySweeps
from tests.simulator.network import Network, Weather
from tests.simulator.owners import ControlProcess, Web
from tests.simulator.schedules import ALL, Profile, drawn_weather
from tests.simulator.tables import Replica, Seen, Tables
from tests.simulator.virtual_time import Hub, Process

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
#: Longest that a world without faults may need until it is quiet: a stop window, silence, and every back-off.
QUIET_S = 1500.0
#: Of what a node has: room for two models of three.
MODEL_BYTES, ROOM_BYTES = 6 * GIB, 13 * GIB


#: Moves by which an agent is heard of, by which a sweep takes a job away, and of the owner.
_HEARD, _TAKEN = frozenset({Claim, Reported}), frozenset({Lapse, Requeue, Adopt})
_BY_OWNER = (Place, Resend, Renew, Progress, Finish, FinishWork, Fail, Release)


@dataclass(slots=True)
class Facts(Seen):
    """What no row holds."""

    now: Callable[[], datetime]
    registered_: list[Registered] = field(default_factory=list)
    revised_: list[Revised] = field(default_factory=list)
    routed_: list[Routed] = field(default_factory=list)
    stops: list[StopSent] = field(default_factory=list)
    taken_away: list[TakenAway] = field(default_factory=list)
    adopted: list[Adopted] = field(default_factory=list)
    stale_writes: list[StaleWrite] = field(default_factory=list)
    #: When the agent of each load last spoke of it.
    heard_at: dict[str, datetime] = field(default_factory=dict)
    causes: list[CauseRead] = field(default_factory=list)
    cancels: list[CancelTold] = field(default_factory=list)
    answers: list[Answered] = field(default_factory=list)
    away: list[Away] = field(default_factory=list)
    moves: int = 0
    log: Callable[[str], None] = lambda text: None

    def moved(self, event: Event, before: Job, after: Job) -> None:
        self.moves += 1
        move = type(event)
        if move in _HEARD:
            self.heard_at[before.id] = self.now()
        elif move in _TAKEN:
            self.taken_away.append(TakenAway(before.id, self.now(), before.lease_expires_at))
        elif isinstance(event, _BY_OWNER) and (event.generation, event.owner) != (before.generation, before.owner):
            self.stale_writes.append(StaleWrite(before.id, self.now(), move.__name__, event.owner))
        if move is Adopt:
            sent, heard_at = before.op_generation is not None, self.heard_at.get(before.id)
            self.adopted.append(Adopted(before.id, self.now(), sent, heard_at))

    def routed(self, replica: Replica) -> None:
        self.routed_.append(Routed(replica.job_id, self.now()))

    def revised(self, model: str, revision: str) -> None:
        self.revised_.append(Revised(model, revision, self.now()))

    def registered(self, node_id: NodeId, incarnation: int) -> None:
        self.registered_.append(Registered(node_id, incarnation, self.now()))


@dataclass(frozen=True, slots=True)
class Parts:
    """What a world is made of. A mutant replaces one of them."""

    windows: Windows = Windows()
    control: type[ControlProcess] = ControlProcess
    agent: type[AgentLife] = AgentLife
    machine: type[Machine] = Machine
    client: type[Client] = Client
    jobs: type[MemoryJobs] = MemoryJobs
    cancels: type[MemoryCancels] = MemoryCancels
    sweeps: type[MemorySweeps] = MemorySweeps
    operations: type[MemoryOperations] = MemoryOperations
    loads: type[MemoryLoads] = MemoryLoads
    tables: type[Tables] = Tables


class World:
    """Everything of one schedule."""

    def __init__(self, seed: int, profile: Profile = ALL, parts: Parts = Parts(), *, trace: bool = False) -> None:
        self.seed, self.profile, self.parts = seed, profile, parts
        self.hub = hub = Hub(seed)
        self.hub.trace = [] if trace else None
        self._read_at, self._now = 0.0, self._at(0.0)
        self.draw = draw = hub.draw
        hub.on_freeze = self._away
        self.pace = Pace(report_s=draw.choice((5.0, 10.0, 15.0)), beat_s=draw.choice((15.0, 30.0)))
        adopts = draw.random() < profile.adoption
        self.windows = replace(parts.windows, adopt_fresh_s=self.pace.report_s * 3 if adopts else None)
        self.facts = Facts(self.now)
        self.tables = parts.tables(self.windows, clock=self.now, new_id=self.new_id, seen=self.facts)
        self.jobs, self.sweeps = parts.jobs(self.tables), parts.sweeps(self.tables)
        self.cancel_rows = parts.cancels(self.tables)
        self.operation_rows, self.load_rows = parts.operations(self.tables), parts.loads(self.tables)
        self.node_rows = MemoryNodes(self.tables, self.operation_rows.new_incarnation)
        self.replica_rows = MemoryReplicas(self.tables)
        self.network = Network(hub, drawn_weather(draw, profile))
        self.sweep_s, self.renew_s = draw.choice((2.0, 4.0)), draw.choice((5.0, 7.5))
        self.models = [f"m{number}" for number in range(draw.choice(profile.models))]
        self._revisions = dict.fromkeys(self.models, 1)
        self._edited_at: dict[str, datetime] = {}
        self._fetched = {model for model in self.models if draw.random() < profile.fetched}
        self.cancels = profile.cancels if draw.random() < 0.6 else 0.0
        self.trouble, self._asking = True, True
        self.controls: list[ControlProcess] = []
        self.webs: list[Web] = []
        for number in range(2):
            self._start_web(f"web-{number}")
        self.machines = [
            parts.machine(hub=hub, name=f"node-{number}", now=self.now) for number in range(draw.choice(profile.nodes))
        ]
        self.agents: dict[str, AgentLife] = {}
        #: Who waits for events of which subject.
        self.listening: dict[str, tuple[Callable[[str, Any], None], ...]] = {}
        self._waiting_orders: dict[str, list[tuple[JobId, int]]] = {}
        self._owners = 0
        self._dead_since: dict[str, float] = {}

    # The schedule

    def run(self) -> History:
        """Trouble, then quiet."""
        profile, hub = self.profile, self.hub
        faults = hub.faults
        faults.crash, faults.freeze, faults.delay = profile.crash, profile.freeze, profile.delay
        faults.freezes_s, faults.freeze_at = profile.freezes_s, profile.freeze_at
        for _ in range(self.draw.choice(profile.controls)):
            self._start_control()
        for machine in self.machines:
            self._start_agent(machine)
        for model in self.models:
            self.parts.client(self, model).begin()
        lasts_s = self.draw.choice(profile.trouble_s)
        for _ in range(self.draw.randrange(profile.blows_most + 1)):
            blow = self.draw.choice(profile.blows)
            hub.call(lambda blow=blow: self._strike(blow), self.draw.random() * lasts_s)
        hub.run(lasts_s)
        self._end_trouble()
        left = self._until_quiet()
        history = self._history(left)
        hub.end()
        return history

    def _end_trouble(self) -> None:
        hub, faults = self.hub, self.hub.faults
        hub.log("-- no more faults")
        faults.crash = faults.freeze = 0.0
        self.network.weather = Weather()
        self.network.database_down_until = 0.0
        self.network.cut.clear()
        self.trouble = self._asking = False

    def _until_quiet(self) -> list[str]:
        began = self.hub.now
        while self.hub.now < began + QUIET_S:
            self.hub.run(self.hub.now + 10.0)
            left = self._left()
            if not left:
                return []
        return left

    def _left(self) -> list[str]:
        """What is not quiet."""
        now, tables = self.now(), self.tables
        left = [f"{job.kind} {job.subject} is {job.state.value}" for job in tables.opened() if job.live]
        left += [
            f"the stop of {job.subject} {job.id[-6:]} is pending"
            for job in tables.opened()
            if job.stop_state == StopState.PENDING
        ]
        left += [
            f"{job.kind} {job.subject} holds until {job.hold_until}"
            for job in tables.jobs.values()
            if job.hold_until is not None and job.hold_until > now
        ]
        loaded = {row.process_instance: row for row in tables.replicas.values() if row.state == "loaded"}
        running = {group.instance for machine in self.machines for group in machine.groups.values()}
        left += [f"process {instance[-6:]} has no loaded row" for instance in running - loaded.keys()]
        left += [
            f"{row.model}#{row.slot} is loaded without a process" for at, row in loaded.items() if at not in running
        ]
        left += [f"{row.model}#{row.slot} is {row.state}" for row in tables.replicas.values() if row.state != "loaded"]
        return left

    def _strike(self, blow: str) -> None:
        draw, hub, seconds = self.draw, self.hub, self.draw.choice(self.profile.freezes_s)
        agents = [agent for agent in self.agents.values() if agent.alive]
        hub.log(f"blow: {blow}")
        match blow:
            case "kill agent" if agents:
                draw.choice(agents).kill()
            case "freeze agent" if agents:
                draw.choice(agents).freeze(seconds)
            case "cut agent" if agents:
                self.network.cut[draw.choice(agents).name] = hub.now + seconds
            case "kill control" if self.controls:
                draw.choice(self.controls).kill()
            case "freeze control" if self.controls:
                draw.choice(self.controls).freeze(seconds)
            case "end control" if self.controls:
                control = draw.choice(self.controls)
                control.spawn(control.end)
            case "database":
                self.network.database_down_until = hub.now + min(seconds, 80.0)
            case "end process":
                groups = [group for machine in self.machines for group in machine.groups.values()]
                if groups:
                    group = draw.choice(groups)
                    group.machine.kill(group)
            case "edit":
                model = draw.choice(self.models)
                self._revisions[model] += 1
                self._edited_at[model] = self.now()
                if draw.random() < 0.5:  # else the next load of it says so
                    self.load_rows.revise(model, self.revision(model))

    # Processes

    def _start_control(self) -> None:
        self._owners += 1
        control = self.parts.control(self, self._owners, **self._clock())
        control.on_death = lambda: self._replace_control(control)
        self.controls.append(control)
        control.begin()

    def _replace_control(self, control: ControlProcess) -> None:
        self.controls.remove(control)
        self.hub.call(self._start_control, self.draw.uniform(0.5, 40.0) if self.trouble else 1.0)

    def _start_web(self, name: str) -> None:
        web = Web(self, name)
        web.on_death = lambda: self._replace_web(web)
        self.webs.append(web)

    def _replace_web(self, web: Web) -> None:
        self.webs.remove(web)
        self._start_web(web.name)

    def _start_agent(self, machine: Machine) -> None:
        agent = self.parts.agent(self, machine, self.pace, **self._clock())
        agent.on_death = lambda: self._replace_agent(machine)
        since = self._dead_since.pop(machine.name, None)
        if since is not None and machine.node_id:
            self.facts.away.append(Away(machine.node_id, self._at(since), self.now()))
        self.agents[machine.name] = agent
        agent.spawn(agent.begin)

    def _replace_agent(self, machine: Machine) -> None:
        self._dead_since[machine.name] = self.hub.now
        machine.agent_died()
        self.hub.call(lambda: self._start_agent(machine), self.draw.choice((1.0, 10.0, 60.0)) if self.trouble else 1.0)

    def _clock(self) -> dict[str, float]:
        return {"rate": self.draw.uniform(0.97, 1.03), "offset": self.draw.uniform(0.0, 1e6)}

    def _away(self, process: Process, seconds: float) -> None:
        """A frozen agent is outside every bound."""
        if isinstance(process, AgentLife) and process.machine.node_id:
            until = self.now() + timedelta(seconds=seconds)
            self.facts.away.append(Away(process.machine.node_id, self.now(), until))

    def agent_is_up(self, agent: AgentLife) -> None:
        """Its queue is read from now on: what lay there arrives."""
        for job_id, op_generation in self._waiting_orders.pop(agent.machine.node_id, []):
            agent.spawn(agent.take_order, job_id, op_generation)

    def order_arrived(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None:
        agent = self.agent_of(node_id)
        if agent is None or agent.registered is None:
            self._waiting_orders.setdefault(node_id, []).append((job_id, op_generation))
        else:
            agent.spawn(agent.take_order, job_id, op_generation)

    def wake_any_control(self, job_id: JobId, generation: int) -> None:
        if self.controls:
            control = self.draw.choice(self.controls)
            control.spawn(control.stepper.step, job_id, generation)

    def agent_of(self, node_id: str) -> AgentLife | None:
        """The agent that listens for a node now."""
        return next(
            (
                agent
                for agent in self.agents.values()
                if agent.alive and agent.machine.node_id == node_id and agent.registered is not None
            ),
            None,
        )

    def webs_in_turn(self) -> list[Web]:
        return self.webs[:] if self.draw.random() < 0.5 else self.webs[::-1]

    def http(self, caller: Process, web: Web, ask: Callable[[Any], Any], timeout_s: float) -> Any:
        """A call to a web process."""
        return self.network.call(caller, web, lambda: ask(web.services), timeout_s)

    # What the parts ask

    def now(self) -> datetime:
        if self._read_at != self.hub.now:
            self._read_at, self._now = self.hub.now, self._at(self.hub.now)
        return self._now

    @staticmethod
    def _at(moment: float) -> datetime:
        return EPOCH + timedelta(seconds=moment)

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.draw.getrandbits(128), version=4))

    def asking(self) -> bool:
        return self._asking

    def revision(self, model: str) -> str:
        return f"r{self._revisions[model]}"

    def plan(self, model: str) -> LoadPlan:
        size = MODEL_BYTES
        file = StagedFile(path="model.gguf", size=size, sha256="0" * 64, sources=("/model.gguf",))
        return LoadPlan(
            model=model,
            revision=self.revision(model),
            backend="fault",
            identity=None,
            model_file="model.gguf",
            files=(file,) if model in self._fetched else None,
            model_options={},
            file_fields={},
            env={},
            changed_at=self._edited_at.get(model),
        )

    def fetched(self, model: str) -> None:
        self._fetched.add(model)

    def room(self) -> dict[str, int]:
        return {"total_ram": ROOM_BYTES, "available_ram": ROOM_BYTES, "total_disk": 1000 * GIB}

    def fetch_s(self) -> float:
        return self.draw.choice((1.0, 10.0, 40.0))

    def install_s(self) -> float:
        return self.draw.choice((0.1, 0.1, 5.0))

    def staging_s(self) -> float:
        return self.draw.choice((0.1, 3.0, 15.0))

    def start_s(self) -> float:
        return self.draw.choice((0.3, 2.0))

    def load_s(self) -> float:
        return self.draw.choice(self.profile.load_s)

    def refuses(self) -> bool:
        return self.trouble and self.draw.random() < self.profile.refusals

    def corrupts(self) -> bool:
        return self.trouble and self.draw.random() < self.profile.corruption

    def stop_sent(self, payload: Any) -> None:
        self.facts.stops.append(StopSent(payload["job_id"], payload.get("process_instance"), self.now()))

    def listener(self, address: str) -> Any:
        """The process that answers at an address now."""
        name, _, port = address.partition(":")
        machine = next(machine for machine in self.machines if machine.name == name)
        return machine.listener(int(port))

    # The end

    def _history(self, left: list[str]) -> History:
        now = self.now()
        for name, since in self._dead_since.items():
            node_id = next(machine.node_id for machine in self.machines if machine.name == name)
            self.facts.away.append(Away(node_id, self._at(since), now))
        processes = [facts for machine in self.machines for facts in machine.past]
        return History(
            bounds=Bounds(
                stop_s=150.0,
                report_s=15.0,
                kill_ttl_s=self.pace.kill_ttl_s * 1.04,
                kill_slack_s=17.0,
                clock_s=1e-6,
                adopt_fresh_s=self.windows.adopt_fresh_s,
            ),
            jobs={job.id: job_facts(job) for job in self.tables.jobs.values()},
            events=self.tables.job_events,
            until=now,
            processes=processes,
            registered=self.facts.registered_,
            revised=self.facts.revised_,
            routed=self.facts.routed_,
            stops=self.facts.stops,
            taken_away=self.facts.taken_away,
            adopted=self.facts.adopted,
            stale_writes=self.facts.stale_writes,
            causes=self.facts.causes,
            cancels=self.facts.cancels,
            answers=self.facts.answers,
            away=self.facts.away,
            not_quiet=left,
        )


def job_facts(job: Job) -> JobFacts:
    """The part of a row that the checker reads."""
    return JobFacts(
        id=job.id,
        kind=job.kind,
        subject=job.subject,
        slot=job.slot,
        parent_id=job.parent_id,
        generation=job.generation,
        op_generation=job.op_generation,
        node_id=job.node_id,
        state=job.state.value,
        revision=job.revision,
        stop_state=job.stop_state.value,
        hold_until=job.hold_until,
        error_cause=job.error_cause,
        created_at=job.created_at,
        finished_at=job.finished_at,
    )


class _Errors(logging.Handler):
    """What the services log as an error: a fault of theirs that they survived."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], StorageUnavailable | Replaced):
            return  # said in so many lines by a pool; the next pass tries again
        self.found.append(self.format(record))


@contextmanager
def errors_of_services() -> Iterator[list[str]]:
    """Collect errors that are logged, and let nothing below them cost time."""
    handler, root = _Errors(), logging.getLogger()
    handlers, root.handlers[:] = root.handlers[:], [handler]
    logging.disable(logging.WARNING)
    try:
        yield handler.found
    finally:
        logging.disable(logging.NOTSET)
        root.handlers[:] = handlers
