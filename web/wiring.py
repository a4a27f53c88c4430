"""Which parts does a web process consist of? Built from settings after the fork; the only module of `web` that knows
the queue and the stores."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from os import getpid
from pathlib import Path

from localai import logs
from localai.bus.memory import MemoryBus
from localai.bus.nats import NatsBus, delivery_of_this_process
from localai.bus.ports import Events
from localai.bus.subjects import ROUTING_CHANGED
from localai.db.engine import make_engine
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory, units_of
from localai.errors import StartRefused
from localai.ids import FrontendId
from localai.inference.channels import Channels
from localai.inference.client import GrpcInference
from localai.inference.ports import Endpoint
from localai.jobs.announce import Announcer
from localai.jobs.job import Windows
from localai.jobs.operation_store import PgOperationStore
from localai.jobs.ports import Moved
from localai.jobs.operations import OperationService
from localai.jobs.service import JobService
from localai.jobs.store import PgJobStore
from localai.loads.service import LoadService
from localai.loads.store import PgLoadStore
from localai.loads.waiters import Waiters
from localai.models.loader import ModelConfigs
from localai.nodes.service import NodeService
from localai.nodes.store import PgNodeStore
from localai.replicas.retirement import Retirement
from localai.replicas.store import PgReplicaStore
from localai.routing.feed import Intervals, Process, RoutingFeed
from localai.routing.frontends import PgFrontends
from localai.routing.table import RoutingTable
from localai.settings import Settings, default_state_dir
from localai.staging.digests import Digests
from tasks.broker import make_broker
from tasks.enqueue import DramatiqWakeups
from web.config_watch import ConfigWatch
from web.frontend_note import write_own
from web.gevent_checks import require_gevent
from web.identity import Keys, NodeKeys
from web.services import Services
from web.serving import REFRESH_TIMEOUT_S, Serving

log = logs.get(__name__)

#: Web processes are many, their statements short: what does not find a connection waits a moment.
POOL_SIZE = 5


def build_services(settings: Settings | None = None) -> Services:
    """The services of this web process, not started. Raises StartRefused, BadSetting."""
    require_gevent()
    settings = settings or Settings.load()
    state = settings.state_dir or default_state_dir()
    models = settings.models_path or state / "models"
    engine = make_engine(settings.database_url, application=f"localai-web-{getpid()}", pool_size=POOL_SIZE)
    units = units_of(engine)
    events = _events(settings)
    announcer = Announcer(DramatiqWakeups(make_broker(settings.broker_url)), events)

    windows = Windows.of(settings)  # type: ignore[arg-type]  # its protocol asks for settable fields
    job_store, load_store = PgJobStore(units, windows), PgLoadStore(units, windows)
    operation_store = PgOperationStore(units, lambda: UnitOfWork(engine, isolation="REPEATABLE READ"), windows)
    loads = LoadService(load_store, load_store, announcer)
    nodes = _nodes(settings, units, operation_store, events, announcer)
    routing = _routing(settings, units)
    waiters = Waiters(
        loads,
        routing.table,
        lambda: routing.feed.refresh(REFRESH_TIMEOUT_S),
        wait_s=settings.model_load_wait_s,
        poll_interval_s=settings.waiter_poll_interval_s,
    )
    configs = ModelConfigs(models)
    watch = ConfigWatch(configs, load_store.revise, settings.config_resync_interval_s)

    def start() -> None:
        waiters.listen(events)
        events.subscribe(ROUTING_CHANGED, lambda subject, payload: routing.feed.nudge())
        events.on_resync(routing.feed.nudge)
        watch.start()
        routing.feed.start()

    def close() -> None:
        watch.stop()
        routing.feed.stop()
        events.close()
        routing.inference.close()
        engine.dispose()

    return Services(
        settings=settings,
        keys=Keys(_admin_keys(settings, state)),
        node_keys=NodeKeys(nodes, settings.registration_token),
        configs=configs,
        table=routing.table,
        waiters=waiters,
        serving=Serving(routing.table, routing.feed, waiters, routing.inference, Retirement(units, events)),
        loads=loads,
        jobs=JobService(job_store, job_store, announcer),
        operations=OperationService(operation_store, job_store, announcer),
        nodes=nodes,
        replicas=PgReplicaStore(units),
        events=events,
        models_folder=models,
        digests=Digests(state / "digests.json"),
        start=start,
        close=close,
    )


@dataclass(frozen=True, slots=True)
class _Routing:
    """The table, what keeps it true, and the connections it decides about."""

    table: RoutingTable
    feed: RoutingFeed
    inference: GrpcInference


def _routing(settings: Settings, units: UnitOfWorkFactory) -> _Routing:
    lease_ttl_s = settings.frontend_lease_ttl_s

    def vouch(endpoint: Endpoint) -> bool:
        return table.vouches(endpoint)

    inference = GrpcInference(Channels(vouch=vouch))
    serve_stale = settings.stale_routing == "serve"
    table = RoutingTable(lease_ttl_s=lease_ttl_s, serve_stale=serve_stale, forget=inference.forget)
    feed = RoutingFeed(
        table,
        PgReplicaStore(units),
        PgFrontends(units, lease_ttl_s),
        inference,
        process=Process(host=socket.gethostname(), pid=getpid(), url=_own_url(settings)),
        intervals=Intervals(
            lease_ttl_s=lease_ttl_s,
            renew_s=settings.frontend_renew_interval_s,
            poll_s=settings.routing_poll_interval_s,
        ),
        on_registered=write_own,
    )
    return _Routing(table, feed, inference)


def _nodes(
    settings: Settings,
    units: UnitOfWorkFactory,
    operations: PgOperationStore,
    events: Events,
    announcer: Announcer,
) -> NodeService[Moved]:
    return NodeService(
        PgNodeStore(units, operations.new_incarnation),
        events,
        tell_moved=lambda moved: announcer.moved(*moved),
        checkpoint_s=settings.heartbeat_checkpoint_s,
        stale_after_s=settings.stale_node_threshold_s,
        auto_approve=settings.auto_approve_nodes,
        approve_names=[settings.approve_node] if settings.approve_node else [],
    )


def end_frontend(settings: Settings, frontend_id: FrontendId) -> None:
    """End the row of a web process that is gone, on a connection of its own. Raises StorageUnavailable."""
    engine = make_engine(settings.database_url, application="localai-web-master", pool_size=1)
    try:
        PgFrontends(units_of(engine), settings.frontend_lease_ttl_s).end(frontend_id)
    finally:
        # The next worker is forked from this process: it must not inherit a connection.
        engine.dispose()


def _events(settings: Settings) -> Events:
    """The bus; without one, events reach this process only and everybody else learns by polling."""
    if not settings.nats_url:
        return MemoryBus()
    return NatsBus(settings.nats_url, name=f"web-{getpid()}", delivery=delivery_of_this_process())


def _admin_keys(settings: Settings, state: Path) -> list[str]:
    if settings.api_key:
        return list(settings.api_key)
    try:
        key = (state / "api-key").read_text(encoding="utf-8").strip()
    except OSError:
        key = ""
    if not key:
        raise StartRefused(f"there is no admin key: set LOCALAI_API_KEY, or put one into {state / 'api-key'}")
    return [key]


def _own_url(settings: Settings) -> str:
    host = f"[{settings.address}]" if ":" in settings.address else settings.address
    return f"http://{host}:{settings.port}"
