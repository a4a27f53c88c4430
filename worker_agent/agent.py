"""How the parts of one incarnation are put together, started and ended."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from localai import logs
from localai.backends.platform_rules import this_machine
from localai.clock import boottime
from localai.settings import Settings
from worker_agent import bus
from worker_agent.actors import OrderQueue
from worker_agent.addresses import Addresses
from worker_agent.ending import Ending, Why
from worker_agent.files.digests import DigestCache
from worker_agent.files.fetch import Fetcher
from worker_agent.files.staged_files import StagedFiles
from worker_agent.folders import Folders
from worker_agent.frontends import Frontends, Registered
from worker_agent.heartbeat import Heartbeat
from worker_agent.hooks import Hooks
from worker_agent.install.backends import BackendInstaller, Rights
from worker_agent.install.commands import Commands
from worker_agent.loading import Loader
from worker_agent.operations import Operations
from worker_agent.probes import readiness
from worker_agent.processes import activity, environ
from worker_agent.processes.confinement import Confinement
from worker_agent.processes.dialing import Dialed, dial
from worker_agent.processes.health import HealthCheck
from worker_agent.processes.hearing import hear
from worker_agent.processes.journal import Journal
from worker_agent.processes.orphans import reap_orphans
from worker_agent.processes.port_range import PortBounds, PortRange, is_free
from worker_agent.processes.process import Group
from worker_agent.processes.stall_rules import Heard
from worker_agent.processes.starter import ProcessStarter
from worker_agent.processes.supervisor import Supervisor
from worker_agent.reports import Intervals, Reporter
from worker_agent.runner import OperationRunner, Parts
from worker_agent.stops import StopResponder
from worker_agent.telemetry import cgroups, cpu
from worker_agent.telemetry.figures import Figures
from worker_agent.telemetry.model_memory import ModelMemoryReading
from worker_agent.tickers import Ticker

log = logs.get(__name__)

#: TERM to KILL when the agent itself ends. Its parent may be dead and gives the whole end 5 s.
LAST_GRACE_S = 3.0
#: How long the last report may take.
LAST_REPORT_S = 1.0
#: How much longer than the grace a stop waits until it says that the group has not ended.
STOP_MARGIN_S = 5.0
#: How often logs are looked at, orphans are collected and the journal catches up.
TIDY_INTERVAL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an incarnation stands on; made before it registers."""

    settings: Settings
    folders: Folders
    addresses: Addresses
    frontends: Frontends
    figures: Figures
    digests: DigestCache
    staged_files: StagedFiles
    model_memory: ModelMemoryReading
    ending: Ending
    hooks: Hooks
    confinement: Confinement
    #: Ports that processes of earlier incarnations had.
    used_ports: Iterable[int]


class Agent:
    """One incarnation."""

    def __init__(self, place: Place, registered: Registered) -> None:
        settings = place.settings
        self._place = place
        self._news = threading.Event()
        self._journal = Journal(place.folders.journal)
        self.operations = Operations(kill_ttl_s=settings.worker_kill_ttl_s, clock=boottime, changed=self._news.set)
        self.supervisor = self._make_supervisor()
        place.model_memory.groups = self.supervisor.groups
        self.reporter = self._make_reporter(registered)
        self.runner = OperationRunner(self._parts(registered))
        self.heartbeat = self._make_heartbeat(registered)
        self.queue = OrderQueue(node_id=registered.node_id, broker_url=settings.broker_url, run=self.runner.submit)
        self.stops = StopResponder(
            self.operations,
            incarnation=registered.incarnation,
            bound_s=settings.stop_grace_s + STOP_MARGIN_S,
            report_now=self._news.set,
            hooks=place.hooks,
        )
        self._bus = bus.connect(settings.nats_url, f"agent-{registered.name}", settings.ca_file)
        self._node_id = registered.node_id
        self._health = HealthCheck(
            serving=self.operations.serving,
            hear=self._hear,
            activity=lambda running: activity.of_instance(running.pid, running.process_instance),
            end_process=self.operations.end_process,
            clock=boottime,
            interval_s=settings.health_interval_s,
            stall_window_s=settings.process_stall_window_s,
        )
        self._tickers = [
            Ticker("watchdog", settings.watchdog_interval_s, self.operations.watch),
            Ticker("heartbeat", settings.heartbeat_interval_s, self.heartbeat.beat),
            Ticker("health", settings.health_interval_s, self._health.look),
            Ticker("housekeeping", TIDY_INTERVAL_S, self._tidy),
            Ticker("queue-watch", 1.0, self.queue.check),
        ]

    def start(self) -> None:
        """Begin to take orders."""
        for ticker in self._tickers:
            ticker.start()
        self.reporter.start()
        bus.serve_stops(self._bus, self._node_id, self.stops)
        self.queue.start()

    def not_ready(self) -> str | None:
        """Why ``/readyz`` is not OK, or None."""
        return readiness(
            bus_connected=self._bus.connected,
            queue_problem=self.queue.problem,
            serving=self.operations.serving,
            dial=self._dial,
            process_problem=self._process_problem,
        )

    def end(self) -> list[Group]:
        """Take nothing new, end every group, say so once. Returns the groups that would not end."""
        self.operations.close()
        closing = threading.Thread(target=self.queue.close, name="queue-close", daemon=True)
        closing.start()
        left = self.supervisor.end_all(min(self._place.settings.stop_grace_s, LAST_GRACE_S))
        self.operations.wait_empty(LAST_REPORT_S)
        for ticker in self._tickers:
            ticker.stop()
        self._say_the_end()
        bus.close(self._bus)
        self._journal.close()
        return left

    def _say_the_end(self) -> None:
        """Tell a frontend, so that rows need not wait for the next incarnation or for silence to count."""
        self.reporter.stop(0.0)
        last = threading.Thread(target=self.reporter.say_the_end, name="last-report", daemon=True)
        last.start()
        last.join(LAST_REPORT_S)

    def _process_problem(self) -> str | None:
        if (problem := self._health.problem()) is not None:
            return problem
        stuck = [f"{group.name} (pid {group.pid})" for group in self.supervisor.groups() if group.outlives_kill]
        return f"the process group of {stuck[0]} does not end after KILL" if stuck else None

    def _tidy(self) -> None:
        self._journal.catch_up()
        for output in self.supervisor.outputs():
            output.trim()
        reap_orphans()

    def _make_supervisor(self) -> Supervisor:
        place = self._place
        return Supervisor(
            starter=ProcessStarter(
                self._journal,
                grace_s=place.settings.stop_grace_s,
                hooks=place.hooks,
                rights=place.confinement.rights,
            ),
            journal=self._journal,
            ports=PortRange(
                PortBounds.of(place.addresses.base_port, place.settings.grpc_max_port),
                quarantine_s=place.settings.port_quarantine_s,
                clock=boottime,
                free=partial(is_free, place.addresses.bind_host),
                used_before=place.used_ports,
            ),
            addresses=place.addresses,
            log_folder=place.folders.logs,
            gone=self.operations.process_gone,
            forget=place.confinement.forget,
        )

    def _parts(self, registered: Registered) -> Parts:
        place = self._place
        settings = place.settings
        base = environ.inherited(settings.backend_env)
        for_installs = environ.inherited(settings.backend_env, installs=True)
        rights = Rights(
            may_install=not settings.disable_backend_install,
            enable_fault=settings.enable_fault_backend,
            fault_delay_s=settings.fault_install_delay_s,
        )
        return Parts(
            registered=registered,
            frontends=place.frontends,
            operations=self.operations,
            installer=BackendInstaller(
                place.folders.backends,
                machine=this_machine(platform.system(), platform.machine(), platform.libc_ver()),
                rights=rights,
                commands=Commands(self.supervisor, place.folders.logs, for_installs),
                hooks=place.hooks,
                account=place.confinement.account,
            ),
            fetcher=Fetcher(place.frontends, place.digests, place.staged_files, place.hooks),
            supervisor=self.supervisor,
            loader=Loader(place.addresses.dial_host, default_threads=settings.threads or _default_threads()),
            models=place.folders.models,
            environ=partial(environ.of_order, base),
            kill_ttl_s=settings.worker_kill_ttl_s,
            last_seq=self.reporter.last_seq,
            clock=boottime,
            hooks=place.hooks,
        )

    def _make_reporter(self, registered: Registered) -> Reporter:
        settings = self._place.settings
        return Reporter(
            frontends=self._place.frontends,
            operations=self.operations,
            registered=registered,
            intervals=Intervals(settings.operation_report_interval_s, settings.heartbeat_interval_s),
            news=self._news,
            replaced=self._because(Why.REPLACED),
            hooks=self._place.hooks,
        )

    def _make_heartbeat(self, registered: Registered) -> Heartbeat:
        return Heartbeat(
            frontends=self._place.frontends,
            registered=registered,
            figures=self._place.figures,
            replaced=self._because(Why.REPLACED),
            unknown=self._because(Why.UNKNOWN),
            removed=self._because(Why.REMOVED),
        )

    def _because(self, why: Why) -> Callable[[str], None]:
        return partial(self._place.ending.ask, why)

    def _hear(self, secrets: Mapping[int, str | None]) -> Mapping[int, Heard]:
        return hear(self._place.addresses.dial_host, secrets)

    def _dial(self, port: int) -> Dialed:
        return dial(self._place.addresses.dial_host, port)


def _default_threads() -> int:
    return cpu.default_threads(cpu.affinity(), cgroups.cpu_quota())
