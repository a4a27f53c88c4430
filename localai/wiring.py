"""How the parts of a frontend are joined: the only module that knows stores, services and adapters at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from localai.bus.delivery import delivery_of_this_process
from localai.bus.memory import MemoryBus
from localai.bus.nats import NatsBus
from localai.db.unit_of_work import UnitOfWork, units_of
from localai.embedded.state_folder import StateFolder
from localai.ids import OwnerId
from localai.jobs.announce import Announcer
from localai.jobs.cancel_store import PgCancelStore
from localai.jobs.cancels import CancelService
from localai.jobs.cleanup_steps import CleanupSteps
from localai.jobs.job import Job, Windows
from localai.jobs.kinds import MODEL_INSTALL, MODEL_LOAD, MODEL_UNLOAD, NODE_DRAIN, REPLICA_CLEANUP
from localai.jobs.leases import LeaseBook
from localai.jobs.operation_store import PgOperationStore
from localai.jobs.operations import OperationService
from localai.jobs.owner import Owner
from localai.jobs.periodic import PgPeriodic
from localai.jobs.ports import Moved
from localai.jobs.service import JobService
from localai.jobs.stepper import JobStepper, KindSteps
from localai.jobs.stops import StopService
from localai.jobs.store import PgJobStore
from localai.jobs.sweep_store import PgSweepStore
from localai.loads.budget_rules import Budgets
from localai.loads.cancels import LoadCancels
from localai.loads.durations import DurationBook, PgDurations
from localai.loads.install_steps import InstallSteps
from localai.loads.load_steps import LoadSteps
from localai.loads.plans import ConfigPlans
from localai.loads.quarantines import PgQuarantines
from localai.loads.service import LoadService
from localai.loads.store import PgLoadStore
from localai.models.loader import ModelConfigs
from localai.models.memory import ConfigMemory
from localai.nodes.invitations import Invitations
from localai.nodes.service import NodeService
from localai.nodes.store import PgNodeStore
from localai.observation.observer import Observer
from localai.observation.store import Limits as ObservationLimits
from localai.observation.store import PgObservation
from localai.placement.filters import MIB, Limits
from localai.replicas.cleaning import Cleaning
from localai.replicas.cuts import CutWindows
from localai.replicas.store import PgReplicaStore
from localai.routing.drains import PgDrains
from localai.routing.frontends import PgFrontends
from localai.settings import Settings, default_state_dir
from localai.staging.digests import Digests
from localai.unloads.drain_steps import DrainSteps
from localai.unloads.drain_store import PgDrainStore
from localai.unloads.drains import DrainService
from localai.unloads.service import UnloadService
from localai.unloads.store import PgUnloadStore
from localai.unloads.unload_steps import UnloadSteps

#: The answer to a stop comes when the group has ended, or 5 s after the grace between TERM and KILL with the word that
#: it has not; and the way there and back. Less would take the worker's "could not" for silence.
STOP_ANSWER_SLACK_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Every store of a process, on one engine."""

    jobs: PgJobStore
    cancels: PgCancelStore
    operations: PgOperationStore
    sweeps: PgSweepStore
    loads: PgLoadStore
    durations: PgDurations
    quarantines: PgQuarantines
    unloads: PgUnloadStore
    node_drains: PgDrainStore
    nodes: PgNodeStore[Moved]
    invitations: Invitations
    replicas: PgReplicaStore
    frontends: PgFrontends
    drains: PgDrains
    periodic: PgPeriodic
    observation: PgObservation


def make_rows(engine: Engine, settings: Settings) -> Rows:
    """The stores of a process; opens no connection yet."""
    units = units_of(engine)
    windows, cuts = Windows.of(settings), CutWindows.of(settings)

    def snapshot() -> UnitOfWork:
        return UnitOfWork(engine, isolation="REPEATABLE READ")

    operations = PgOperationStore(units, snapshot, windows)
    return Rows(
        jobs=PgJobStore(units, windows),
        cancels=PgCancelStore(units, windows),
        operations=operations,
        sweeps=PgSweepStore(units, windows),
        loads=PgLoadStore(units, windows, quarantine_after=settings.quarantine_after),
        durations=PgDurations(units),
        quarantines=PgQuarantines(units, settings.quarantine_after, settings.stale_node_threshold_s),
        unloads=PgUnloadStore(units, windows, cuts=cuts),
        node_drains=PgDrainStore(units, windows),
        nodes=PgNodeStore(units, operations.new_incarnation),
        invitations=Invitations(units),
        replicas=PgReplicaStore(units, cuts),
        frontends=PgFrontends(units, settings.frontend_lease_ttl_s),
        drains=PgDrains(units, cuts),
        periodic=PgPeriodic(units),
        observation=PgObservation(units, ObservationLimits.of(settings)),
    )


def make_bus(settings: Settings, name: str) -> NatsBus | MemoryBus:
    """The bus of a process, after the fork. Without a URL events stay inside the process and no node is reached."""
    if settings.nats_url:
        delivery = delivery_of_this_process()
        return NatsBus(settings.nats_url, name=name, delivery=delivery, ca_file=settings.ca_file)
    return MemoryBus(delivery=delivery_of_this_process())


def models_folder(settings: Settings) -> Path:
    """Where this frontend keeps configs and files of models."""
    return settings.models_path or (settings.state_dir or default_state_dir()) / "models"


def make_configs(settings: Settings) -> ModelConfigs:
    """The model configs of this frontend, read once."""
    folder = models_folder(settings)
    memory = ConfigMemory(StateFolder(settings.state_dir or default_state_dir()).known_configs, folder)
    configs = ModelConfigs(folder, memory=memory)
    configs.refresh()
    return configs


def make_digests(settings: Settings) -> Digests:
    """The digests that web and control processes of one frontend share.

    Frontends with one folder share them, too; a folder that cannot be written leaves them to the state folder.
    """
    state = StateFolder(settings.state_dir or default_state_dir())
    return Digests(models_folder(settings) / ".digests.json", state.digests)


def node_service(rows: Rows, settings: Settings, announcer: Announcer, bus: NatsBus | MemoryBus) -> NodeService[Moved]:
    """Nodes, with what a registration ended told to whoever waits for it."""
    return NodeService(
        rows.nodes,
        bus,
        tell_moved=lambda moved: announcer.moved(*moved),
        checkpoint_s=settings.heartbeat_checkpoint_s,
        stale_after_s=settings.stale_node_threshold_s,
        doubt_s=settings.doubt_window_s,
        auto_approve=settings.auto_approve_nodes,
        approve_names=[settings.approve_node] if settings.approve_node else [],
        vouched_hash=settings.approve_node_hash,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontServices:
    """What routes of a web process call, but for what is web's own."""

    jobs: JobService
    cancels: CancelService
    loads: LoadService
    load_cancels: LoadCancels
    unloads: UnloadService
    drains: DrainService
    operations: OperationService
    nodes: NodeService[Moved]
    invitations: Invitations


def front_services(
    rows: Rows, settings: Settings, announcer: Announcer, bus: NatsBus | MemoryBus, configs: ModelConfigs
) -> FrontServices:
    """The services of a web process."""

    def env_of(model: str, revision: str) -> Mapping[str, str] | None:
        config = configs.find(model, revision)
        return config.env if config is not None and config.revision == revision else None

    cancels = CancelService(rows.cancels, rows.jobs, announcer, bus)
    return FrontServices(
        jobs=JobService(rows.jobs, rows.jobs, announcer),
        cancels=cancels,
        load_cancels=LoadCancels(rows.loads, rows.jobs, cancels),
        loads=LoadService(
            rows.loads,
            rows.loads,
            announcer,
            history=DurationBook(rows.durations),
            quarantines=rows.quarantines,
        ),
        unloads=UnloadService(
            rows.unloads, announcer, rows.jobs, bus, wait_s=settings.stop_grace_s + STOP_ANSWER_SLACK_S
        ),
        drains=DrainService(rows.node_drains, rows.jobs, announcer, bus),
        operations=OperationService(rows.operations, rows.jobs, announcer, env_of=env_of),
        nodes=node_service(rows, settings, announcer, bus),
        invitations=rows.invitations,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What a control process does with jobs."""

    owner: Owner
    stepper: JobStepper
    stops: StopService
    #: Has the processes stopped whose replicas serve no more and that nobody has a request with.
    clean: Callable[[], None]
    installs: InstallSteps


def make_ownership(
    rows: Rows,
    settings: Settings,
    announcer: Announcer,
    bus: NatsBus | MemoryBus,
    observer: Observer,
    *,
    owner_id: OwnerId,
    installs: Executor,
    elsewhere: Callable[[Callable[[], None]], None],
) -> Ownership:
    """Owner and steps of every kind of job. ``elsewhere`` runs what waits for a node on another thread."""
    windows = Windows.of(settings)
    owner = Owner(owner_id, rows.jobs, LeaseBook(settings.job_lease_ttl_s), announcer)
    stops = StopService(bus, timeout_s=settings.stop_grace_s + STOP_ANSWER_SLACK_S)
    plans = ConfigPlans(make_configs(settings), make_digests(settings), enable_fault=settings.enable_fault_backend)
    cleaning = Cleaning(rows.replicas, rows.jobs, announcer)
    fetching = InstallSteps(
        owner, rows.jobs, plans, announcer, pool=installs, budgets=Budgets.of(settings), trusts=observer.trusts
    )
    steps: dict[str, KindSteps] = {
        MODEL_LOAD: LoadSteps(
            owner,
            rows.loads,
            plans,
            announcer,
            reads=rows.jobs,
            intake=rows.jobs,
            windows=windows,
            budgets=Budgets.of(settings),
            limits=Limits(stale_after_s=settings.stale_node_threshold_s, disk_margin=settings.disk_margin_mib * MIB),
            trusts=observer.trusts,
        ),
        MODEL_UNLOAD: UnloadSteps(owner, rows.unloads, announcer),
        NODE_DRAIN: DrainSteps(owner, rows.node_drains, rows.unloads, announcer, bus),
        MODEL_INSTALL: fetching,
        REPLICA_CLEANUP: CleanupSteps(owner, stops, windows, elsewhere=elsewhere),
    }

    def stop(job: Job) -> None:
        elsewhere(lambda: stops.stop_operation(job))

    return Ownership(
        owner=owner,
        stepper=JobStepper(rows.jobs, owner, steps, stop=stop),
        stops=stops,
        clean=cleaning.run,
        installs=fetching,
    )
