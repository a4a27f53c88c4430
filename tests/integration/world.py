"""Control processes and agents without processes: the real services over a real database, driven step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine

from localai.bus.memory import MemoryBus
from localai.db.unit_of_work import UnitOfWork
from localai.ids import JobId, NodeId, OwnerId, new_id
from localai.jobs.announce import Announcer
from localai.jobs.cancel_store import PgCancelStore
from localai.jobs.cancels import CancelService
from localai.jobs.cleanup_steps import CleanupSteps
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import KINDS, MODEL_LOAD, MODEL_UNLOAD, NODE_DRAIN, REPLICA_CLEANUP, Kinds
from localai.jobs.leases import LeaseBook
from localai.jobs.operation_rules import (
    OperationError,
    OperationReport,
    OpState,
    Order,
    Phase,
    ProcessReport,
    Report,
    ReportAnswer,
    StagedFile,
    StopAnswer,
    StopOutcome,
)
from localai.jobs.operation_store import PgOperationStore
from localai.jobs.operations import OperationService
from localai.jobs.owner import Owner
from localai.jobs.ports import Wakeups
from localai.jobs.service import JobService
from localai.jobs.stepper import JobStepper, KindSteps
from localai.jobs.stops import StopService
from localai.jobs.store import PgJobStore
from localai.jobs.sweep_store import PgSweepStore
from localai.jobs.sweeping import Sweep
from localai.loads.budget_rules import Budgets
from localai.loads.cancels import LoadCancels
from localai.loads.load_steps import LoadSteps
from localai.loads.ports import InstallProgress, LoadPlan
from localai.loads.service import LoadService
from localai.loads.store import PgLoadStore
from localai.nodes.rules import Figures, Registration
from localai.nodes.service import NodeService
from localai.nodes.store import PgNodeStore
from localai.placement.filters import Limits
from localai.replicas.cleaning import Cleaning
from localai.replicas.store import PgReplicaStore
from localai.routing.drains import PgDrains
from localai.routing.frontends import PgFrontends
from localai.unloads.drain_steps import DrainSteps
from localai.unloads.drain_store import PgDrainStore
from localai.unloads.drains import DrainService
from localai.unloads.service import UnloadService
from localai.unloads.store import PgUnloadStore
from localai.unloads.unload_steps import UnloadSteps

Step = Callable[[JobId, int], object]
#: As in production: tests move the clock of a row and do not wait for it.
WINDOWS = Windows()
GIB = 1024**3


class RecordedWakeups:
    """Wake-ups as a list; a test delivers them when and as often as it likes, or never."""

    def __init__(self) -> None:
        self.control: list[tuple[JobId, int]] = []
        self.orders: list[tuple[NodeId, JobId, int]] = []

    def wake_control(self, job_id: JobId, generation: int) -> None:
        self.control.append((job_id, generation))

    def send_order(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None:
        self.orders.append((node_id, job_id, op_generation))

    def forget_node(self, node_id: NodeId) -> None:
        pass


@dataclass
class FixedPlans:
    """Plans a test has written down; models nobody wrote down have nothing to stage."""

    plans: dict[str, LoadPlan] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)

    def plan(self, model: str, revision: str | None) -> LoadPlan:
        found = self.plans.get(model) or plain_plan(model)
        if model not in self.revisions:
            return found
        return replace(found, revision=self.revisions[model], changed_at=datetime.now(UTC))

    def holds(self, model: str, revision: str | None) -> bool:
        return self.plan(model, revision).revision == revision

    def env(self, model: str, revision: str) -> Mapping[str, str] | None:
        """What a frontend adds to an order of this revision."""
        return self.plan(model, revision).env if self.holds(model, revision) else None


class NoInstalls:
    def install(self, model: str, progress: Callable[[InstallProgress], None], cancelled: Callable[[], bool]) -> None:
        raise AssertionError("this test fetches nothing")


def plain_plan(model: str, *, files: tuple[StagedFile, ...] | None = (), revision: str = "r1") -> LoadPlan:
    return LoadPlan(
        model=model,
        revision=revision,
        backend="fault",
        identity=None if files else model,
        model_file=files[0].path if files else None,
        files=files,
        model_options={"ContextSize": 512},
        file_fields={},
        env={},
    )


def staged(size: int) -> tuple[StagedFile, ...]:
    return (StagedFile(path="model.gguf", size=size, sha256="0" * 64, sources=("/files/model.gguf",)),)


class World:
    """One database, as many owners and agents as a test needs."""

    def __init__(
        self,
        engine: Engine,
        windows: Windows = WINDOWS,
        kinds: Kinds = KINDS,
        wakeups: Wakeups | None = None,
    ) -> None:
        self.engine, self.windows = engine, windows
        self.unit_of_work = lambda: UnitOfWork(engine)
        snapshot = lambda: UnitOfWork(engine, isolation="REPEATABLE READ")  # noqa: E731
        self.bus, self.wakeups = MemoryBus(), RecordedWakeups()
        self.announcer = Announcer(wakeups or self.wakeups, self.bus)
        self.jobs = PgJobStore(self.unit_of_work, windows, kinds)
        self.sweeps = PgSweepStore(self.unit_of_work, windows, kinds)
        self.operation_rows = PgOperationStore(self.unit_of_work, snapshot, windows)
        self.load_rows = PgLoadStore(self.unit_of_work, windows, kinds)
        self.replicas = PgReplicaStore(self.unit_of_work)
        self.unload_rows = PgUnloadStore(self.unit_of_work, windows, kinds)
        self.unloads = UnloadService(self.unload_rows, self.announcer, self.jobs, self.bus, wait_s=0.2)
        self.drain_rows = PgDrainStore(self.unit_of_work, windows, kinds)
        self.node_drains = DrainService(self.drain_rows, self.jobs, self.announcer, self.bus, removal_wait_s=0.2)
        self.drains = PgDrains(self.unit_of_work)
        self.frontends = PgFrontends(self.unit_of_work, 90.0)
        self.plans = FixedPlans()
        self.loads = LoadService(self.load_rows, self.load_rows, self.announcer)
        self.job_service = JobService(self.jobs, self.jobs, self.announcer)
        self.operations = OperationService(self.operation_rows, self.jobs, self.announcer, env_of=self.plans.env)
        self.cancel_rows = PgCancelStore(self.unit_of_work, windows, kinds)
        self.cancels = CancelService(self.cancel_rows, self.jobs, self.announcer, self.bus, wait_s=0.2)
        self.load_cancels = LoadCancels(self.load_rows, self.jobs, self.cancels)
        self.cleaning = Cleaning(self.replicas, self.jobs, self.announcer)
        self.nodes = NodeService(
            PgNodeStore(self.unit_of_work, self.operation_rows.new_incarnation),
            self.bus,
            tell_moved=lambda moved: self.announcer.moved(*moved),
            checkpoint_s=60.0,
            stale_after_s=300.0,
            doubt_s=20.0,
            auto_approve=True,
        )

    def close(self) -> None:
        self.bus.close()
        self.engine.dispose()

    # What a test does to time and rows

    def sql(self, statement: str, **parameters: Any) -> Any:
        with self.unit_of_work() as uow:
            result = uow.execute(statement, parameters)
            return result.mappings().all() if result.returns_rows else None

    def lapse(self, job_id: str) -> None:
        """Let the lease of a job be over."""
        self.sql(
            "UPDATE jobs SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE id = %(id)s", id=job_id
        )

    def silence(self, job_id: str) -> None:
        """Let the last word of the agent about a job be too old to adopt it by."""
        self.sql(
            "UPDATE jobs SET op_seen_at = op_seen_at - make_interval(secs => %(s)s) WHERE id = %(id)s",
            s=(self.windows.adopt_fresh_s or 0.0) + 1,
            id=job_id,
        )

    def end_hold(self, job_id: str) -> None:
        self.sql("UPDATE jobs SET hold_until = clock_timestamp() - interval '1 second' WHERE id = %(id)s", id=job_id)

    def job(self, job_id: str) -> Job:
        job = self.jobs.get(JobId(job_id))
        assert job is not None
        return job

    def replica(self, model: str) -> Mapping[str, Any] | None:
        rows = self.sql("SELECT * FROM replicas WHERE model = %(m)s ORDER BY slot", m=model)
        return rows[0] if rows else None

    def events(self, job_id: str) -> list[str]:
        return [row.event for row in self.jobs.events(JobId(job_id))]

    @contextmanager
    def holding(self, statement: str, **parameters: Any) -> Iterator[None]:
        """Hold the rows that a SELECT ... FOR UPDATE locks while the block runs."""
        with self.unit_of_work() as uow:
            uow.execute(statement, parameters)
            yield

    def waiting_for_a_lock(self) -> int:
        """How many sessions of this database wait for a row at this moment."""
        rows = self.sql(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return len(rows)


class Control:
    """One control process: its owner id, its leases, its stepper. Steps and stops run where they are called."""

    def __init__(
        self,
        world: World,
        budgets: Budgets | None = None,
        clock: Callable[[], float] | None = None,
        *,
        more: Mapping[str, Callable[[Owner], KindSteps]] | None = None,
        later: Callable[[Step], Step] = lambda step: step,
    ) -> None:
        """``more`` makes the steps of further kinds; ``later`` moves a step elsewhere."""
        self.world = world
        leases = LeaseBook(world.windows.lease_s, clock) if clock else LeaseBook(world.windows.lease_s)
        self.owner = Owner(OwnerId(f"control-{new_id()}"), world.jobs, leases, world.announcer)
        self.stops = StopService(world.bus, timeout_s=5.0)
        self.stepper = JobStepper(
            world.jobs,
            self.owner,
            {
                MODEL_LOAD: LoadSteps(
                    self.owner,
                    world.load_rows,
                    world.plans,
                    world.announcer,
                    reads=world.jobs,
                    intake=world.jobs,
                    windows=world.windows,
                    budgets=budgets or Budgets(),
                    limits=Limits(stale_after_s=300.0),
                ),
                MODEL_UNLOAD: UnloadSteps(self.owner, world.unload_rows, world.announcer),
                NODE_DRAIN: DrainSteps(self.owner, world.drain_rows, world.unload_rows, world.announcer, world.bus),
                REPLICA_CLEANUP: CleanupSteps(
                    self.owner,
                    self.stops,
                    world.windows,
                    elsewhere=lambda work: work(),
                ),
                **{kind: make(self.owner) for kind, make in (more or {}).items()},
            },
            stop=self.stops.stop_operation,
        )
        self.sweep = Sweep(
            world.sweeps,
            world.jobs,
            self.owner,
            self.stepper,
            world.announcer,
            step_later=later(self.stepper.step),
            stop_later=self.stops.stop_operation,
            also={"drained replicas": world.cleaning.run},
        )

    def step(self, job_id: str) -> Job:
        self.stepper.step(JobId(job_id), self.world.job(job_id).generation)
        return self.world.job(job_id)


class Agent:
    """One life of an agent, as its HTTP calls look to a frontend."""

    def __init__(self, world: World, name: str | None = None, *, legacy: bool = False, **figures: int) -> None:
        self.world, self.legacy = world, legacy
        self.name = name or f"node-{new_id()}"
        self.registered = world.nodes.register(
            Registration(
                name=self.name,
                address="127.0.0.1:50051",
                figures=Figures(**figures),
                reports_operations=not legacy,
            )
        )
        self.id = NodeId(self.registered.id)
        self.incarnation = self.registered.incarnation
        self.seq = 0
        self.operations: dict[tuple[str, int], OperationReport] = {}
        self.processes: dict[str, ProcessReport] = {}

    def claim(self, job: Job) -> Order:
        assert job.op_generation is not None
        key = (job.id, job.op_generation)
        self.operations[key] = OperationReport(
            job_id=job.id, op_generation=job.op_generation, op_state=OpState.CLAIMED, phase=Phase.PENDING
        )
        return self.world.operations.claim(self.id, self.incarnation, job.id, job.op_generation, self.seq)

    def build(self) -> Report:
        self.seq += 1
        return Report(
            incarnation=self.incarnation,
            seq=self.seq,
            operations=tuple(self.operations.values()),
            processes=tuple(self.processes.values()),
        )

    def report(self) -> ReportAnswer:
        return self.send(self.build())

    def send(self, report: Report) -> ReportAnswer:
        return self.world.operations.report(self.id, report)

    def change(self, job: Job, **changes: Any) -> ReportAnswer:
        key = (job.id, job.op_generation or 0)
        self.operations[key] = replace(self.operations[key], **changes)
        return self.report()

    def start(self, job: Job, *, ready: bool = True) -> str:
        """A model process of this operation, in the next report."""
        instance = new_id()
        self.processes[instance] = ProcessReport(
            process_instance=instance,
            model=job.subject,
            slot=job.slot,
            job_id=job.id,
            op_generation=job.op_generation or 0,
            address="127.0.0.1:50052",
            pid=1,
            ready=ready,
        )
        return instance

    def become_ready(self, job: Job) -> tuple[str, ReportAnswer]:
        instance = self.start(job)
        answer = self.change(
            job,
            op_state=OpState.READY,
            phase=Phase.LOADING,
            process_instance=instance,
            address="127.0.0.1:50052",
            identity=job.subject,
        )
        return instance, answer

    def end(self, job: Job, error: OperationError | None = None) -> ReportAnswer:
        """Nothing of the operation runs any more."""
        for instance in [key for key, process in self.processes.items() if process.job_id == job.id]:
            del self.processes[instance]
        return self.change(job, op_state=OpState.ENDED, error=error)

    def obey(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """End what an exact stop names, report at once as a real agent does, and answer."""
        key = (payload["job_id"], payload["op_generation"])
        for instance, process in list(self.processes.items()):
            if (process.job_id, process.op_generation) == key:
                del self.processes[instance]
        if key in self.operations:
            self.operations[key] = replace(self.operations[key], op_state=OpState.ENDED)
        self.report()
        return StopAnswer(outcome=StopOutcome.TERMINATED, incarnation=self.incarnation).to_json()

    def forget(self, job: Job) -> None:
        del self.operations[(job.id, job.op_generation or 0)]


def placed_load(world: World, control: Control, model: str, revision: str = "r1") -> Job:
    """A load whose order was sent."""
    ticket = world.loads.request(model, revision)
    job = control.step(ticket.job_id)
    assert job.op_generation is not None, job.error
    return job


def serving_load(world: World, control: Control, agents: Sequence[Agent], model: str) -> tuple[Job, Agent, str]:
    """A load that succeeded: its row, its agent, its process."""
    job = placed_load(world, control, model)
    agent = next(agent for agent in agents if agent.id == job.node_id)
    agent.claim(job)
    instance, _ = agent.become_ready(job)
    done = control.step(job.id)
    agent.report()
    agent.forget(job)
    return done, agent, instance


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """Run work beside the test; what it returned or raised is in the list when the thread has ended."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome
