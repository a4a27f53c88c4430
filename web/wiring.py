"""Which parts does a web process consist of? The only module of `web` that knows the queue."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from os import getpid
from pathlib import Path

from localai import crash_points, wiring
from localai.bus.subjects import NODES_CHANGED, ROUTING_CHANGED
from localai.db.engine import make_engine
from localai.db.unit_of_work import units_of
from localai.errors import StartRefused
from localai.gauges.store import Gauges
from localai.ids import FrontendId
from localai.inference.channels import Channels, Keepalive
from localai.inference.client import GrpcInference
from localai.inference.ports import Endpoint
from localai.jobs.announce import Announcer
from localai.loads.waiters import Waiters
from localai.models.timeouts import limits_of
from localai.replicas.retirement import Retirement
from localai.routing.feed import Intervals, Process, RoutingFeed
from localai.routing.frontends import PgFrontends
from localai.routing.table import RoutingTable
from localai.sessions.store import PgEndedSessions
from localai.settings import KEY_ACCEPTED, Settings, check_key_lengths, default_state_dir, usable_as_key
from localai.shared_counts import SharedCounts, folder_of
from tasks.broker import make_broker
from tasks.depths import queue_depths
from tasks.enqueue import DramatiqWakeups
from web.config_watch import ConfigWatch
from web.doubts import Doubts
from web.frontend_note import write_own
from web.gevent_checks import require_gevent
from web.identity import Keys, NodeKeys
from web.services import Services
from web.serving import REFRESH_TIMEOUT_S, Serving

#: Statements are short: what finds no connection waits a moment.
POOL_SIZE = 5


def build_services(settings: Settings | None = None) -> Services:
    """The services of this web process, not started. To be called after the fork. Raises StartRefused, BadSetting."""
    require_gevent()
    settings = settings or Settings.load()
    crash_points.arm(settings.crash_point_file)
    engine = make_engine(settings.database_url, application=f"localai-web-{getpid()}", pool_size=POOL_SIZE)
    rows = wiring.make_rows(engine, settings)
    bus = wiring.make_bus(settings, f"web-{getpid()}")
    broker = make_broker(settings.broker_url)
    announcer = Announcer(DramatiqWakeups(broker), bus)
    configs = wiring.make_configs(settings)
    front = wiring.front_services(rows, settings, announcer, bus, configs)
    routing = _routing(settings, rows, Doubts(front.nodes).unreachable)
    waiters = Waiters(
        front.loads,
        routing.table,
        lambda: routing.feed.refresh(REFRESH_TIMEOUT_S),
        wait_s=settings.model_load_wait_s,
        poll_interval_s=settings.waiter_poll_interval_s,
        silence_s=settings.worker_kill_ttl_s,
    )
    retirement = Retirement(units_of(engine), bus)
    watch = ConfigWatch(
        configs,
        front.loads,
        lambda model: front.unloads.request(model, actor="config deleted"),
        settings.config_resync_interval_s,
    )

    counts = SharedCounts(folder_of(settings))
    gauges = Gauges(
        units_of(engine),
        lambda node_ids: queue_depths(broker, node_ids),
        quarantine_after=settings.quarantine_after,
    )

    node_keys = NodeKeys(front.nodes, settings.registration_token, is_join_token=front.invitations.knows)

    def start() -> None:
        counts.start()
        waiters.listen(bus)
        bus.subscribe(NODES_CHANGED, lambda subject, payload: node_keys.forget(str(payload.get("node_id", ""))))
        bus.subscribe(ROUTING_CHANGED, lambda subject, payload: routing.feed.nudge())
        bus.on_resync(routing.feed.nudge)
        watch.start()
        routing.feed.start()

    def close() -> None:
        counts.stop()
        watch.stop()
        routing.feed.stop()
        bus.close()
        routing.inference.close()
        engine.dispose()

    return Services(
        settings=settings,
        keys=Keys(_admin_keys(settings)),
        node_keys=node_keys,
        ended_sessions=PgEndedSessions(units_of(engine)),
        configs=configs,
        table=routing.table,
        serving=Serving(
            routing.table, routing.feed, waiters, routing.inference, retirement, limits=limits_of(settings)
        ),
        loads=front.loads,
        load_cancels=front.load_cancels,
        cancels=front.cancels,
        unloads=front.unloads,
        drains=front.drains,
        jobs=front.jobs,
        operations=front.operations,
        nodes=front.nodes,
        invitations=front.invitations,
        replicas=rows.replicas,
        events=bus,
        models_folder=wiring.models_folder(settings),
        digests=wiring.make_digests(settings),
        counts=counts.collect,
        gauges=gauges.read,
        start=start,
        close=close,
    )


@dataclass(frozen=True, slots=True)
class _Routing:
    """The table, what keeps it true, and the connections it decides about."""

    table: RoutingTable
    feed: RoutingFeed
    inference: GrpcInference


def _routing(settings: Settings, rows: wiring.Rows, on_unreachable: Callable[[Endpoint], None]) -> _Routing:
    def vouch(endpoint: Endpoint) -> bool:
        return table.vouches(endpoint)

    inference = GrpcInference(
        Channels(vouch=vouch, keepalive=Keepalive(settings.grpc_keepalive_time_s, settings.grpc_keepalive_timeout_s))
    )
    table = RoutingTable(
        lease_ttl_s=settings.frontend_lease_ttl_s,
        serve_stale=settings.stale_routing == "serve",
        forget=inference.forget,
    )
    feed = RoutingFeed(
        table,
        rows.replicas,
        rows.frontends,
        inference,
        rows.drains,
        process=Process(
            host=socket.gethostname(), pid=getpid(), url=_own_url(settings), instance_id=settings.instance_id
        ),
        intervals=Intervals(
            lease_ttl_s=settings.frontend_lease_ttl_s,
            renew_s=settings.frontend_renew_interval_s,
            poll_s=settings.routing_poll_interval_s,
        ),
        on_registered=write_own,
        on_unreachable=on_unreachable,
    )
    return _Routing(table, feed, inference)


def end_frontend(settings: Settings, frontend_id: FrontendId) -> None:
    """End the row of a web process that is gone, on a connection of its own. Raises StorageUnavailable."""
    engine = make_engine(settings.database_url, application="localai-web-master", pool_size=1)
    try:
        PgFrontends(units_of(engine), settings.frontend_lease_ttl_s).end(frontend_id)
    finally:
        # The next worker is forked from this process: it must not inherit a connection.
        engine.dispose()


def _admin_keys(settings: Settings) -> list[str]:
    if settings.api_key:
        check_key_lengths(settings.api_key, "LOCALAI_API_KEY")
        return list(settings.api_key)
    path: Path = (settings.state_dir or default_state_dir()) / "api-key"
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        key = ""
    if not usable_as_key(key):
        raise StartRefused(f"the key in {path} cannot be used; accepted: {KEY_ACCEPTED}")
    if not key:
        raise StartRefused(f"there is no admin key: set LOCALAI_API_KEY, or put one into {path}")
    check_key_lengths([key], str(path))
    return [key]


def _own_url(settings: Settings) -> str:
    host = f"[{settings.address}]" if ":" in settings.address else settings.address
    return f"{'http' if settings.tls_cert is None else 'https'}://{host}:{settings.port}"
