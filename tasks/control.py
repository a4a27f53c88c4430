"""The control process: owns jobs, takes their steps, sweeps, and keeps the leases.

``python -m tasks.control``, started by `localai run` and `localai up`. Everything runs on plain threads; any number of
control processes may run, and any of them may be killed at any line.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from localai import crash_points, logs, private_memory, wiring
from localai.bus.ports import Payload
from localai.bus.subjects import JOB_PROGRESS, job_of
from localai.db.engine import make_engine
from localai.embedded.signals import SignalWait
from localai.errors import LocalAIError, StorageUnavailable
from localai.escapes import escaped
from localai.ids import OwnerId, new_id
from localai.jobs.announce import Announcer
from localai.jobs.sweeping import Judgement, Sweep
from localai.observation.observer import Observer
from localai.settings import Settings
from localai.shared_counts import SharedCounts, folder_of
from tasks.actors import register_control_actors
from tasks.broker import make_broker
from tasks.enqueue import DramatiqWakeups
from tasks.keeper import Keeper
from tasks.queues import CONTROL_QUEUE
from tasks.sweep import Later, SweepThread
from tasks.ticker import Pass, Ticker
from tasks.worker import RunningWorker, start_worker

log = logs.get(__name__)

#: Steps take milliseconds; these many may wait for the database at once.
STEP_THREADS = 8
#: Stops wait for a node's answer, so they have threads of their own.
STOP_THREADS = 8
#: Downloads share one line: more at once only make each slower.
INSTALL_THREADS = 2
#: How often the worker is looked at, and made anew where its consumers do not move.
WATCH_INTERVAL_S = 5.0
#: Terminal jobs stay for waiters, people and the checker.
KEEP_JOBS_S = 7 * 24 * 3600.0
PRUNE_LIMIT = 10_000
SHUTDOWN_S = 3.0


class Control:
    """Everything of one control process, from start to end."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.owner_id = OwnerId(f"control-{new_id()}")
        self._engine = make_engine(settings.database_url, application="localai-control", pool_size=STEP_THREADS)
        self._rows = wiring.make_rows(self._engine, settings)
        self._bus = wiring.make_bus(settings, "control")
        self._broker = make_broker(settings.broker_url)
        self._announcer = Announcer(DramatiqWakeups(self._broker), self._bus)
        self._steps = ThreadPoolExecutor(STEP_THREADS, thread_name_prefix="step")
        self._stops = ThreadPoolExecutor(STOP_THREADS, thread_name_prefix="stop")
        self._installs = ThreadPoolExecutor(INSTALL_THREADS, thread_name_prefix="install")
        stops = Later(self._stops)
        self._observer = Observer(self._rows.observation, settings.observation_gap_s)
        self._ownership = wiring.make_ownership(
            self._rows,
            settings,
            self._announcer,
            self._bus,
            self._observer,
            owner_id=self.owner_id,
            installs=self._installs,
            elsewhere=stops.run,
        )
        self._step_later = Later(self._steps).step(self._ownership.stepper.step)
        self._nodes = wiring.node_service(self._rows, settings, self._announcer, self._bus)
        self._keeper = Keeper(self._ownership.owner, settings.job_renew_interval_s)
        self._sweep = SweepThread(self._make_sweep(stops), settings.job_sweep_interval_s)
        self._ticker = Ticker(self._rows.periodic, self._passes())
        self._worker: RunningWorker | None = None
        self._counts = SharedCounts(folder_of(settings))

    def run(self, signals: SignalWait) -> None:
        """Work until a stop is asked for, then let steps under way end."""
        register_control_actors(self._broker, self._ownership.stepper.step)
        self._counts.start()
        self._keeper.start()
        self._sweep.start()
        self._ticker.start()
        self._worker = self._start_worker()
        self._bus.subscribe(JOB_PROGRESS, self._on_progress)
        log.info("control is ready", extra=logs.fields(owner=self.owner_id))
        try:
            while not signals.stop_asked:
                signals.wait(WATCH_INTERVAL_S)
                self._look_at_worker()
        finally:
            self._end()

    def _on_progress(self, subject: str, payload: Payload) -> None:
        """A job has moved. The queue wakes any one control process, this wakes the one that owns the job."""
        job_id = job_of(subject)
        generation = self._ownership.owner.leases.generation_of(job_id)
        if generation is not None:
            self._step_later(job_id, generation)

    def _make_sweep(self, stops: Later) -> Sweep:
        ownership = self._ownership
        return Sweep(
            self._rows.sweeps,
            self._rows.jobs,
            ownership.owner,
            ownership.stepper,
            self._announcer,
            step_later=self._step_later,
            stop_later=stops.stop(ownership.stops.stop_operation),
            also={
                "silent nodes": Judgement(self._nodes.give_up_silent, self._settings.stale_grace_s),
                "nodes that are not reached": Judgement(self._nodes.give_up_doubted, self._settings.doubt_window_s),
                "returned nodes": self._nodes.take_back,
                "drained replicas": Judgement(ownership.clean, self._settings.frontend_grace_s),
            },
            observe=self._observer.look,
            lapse_after_s=self._settings.fresh_report_s,
        )

    def _passes(self) -> dict[str, Pass]:
        interval_s = self._settings.reconcile_interval_s
        return {
            "lapsed frontends": Pass(interval_s, self._rows.frontends.mark_lapsed),
            "old jobs": Pass(interval_s, lambda: self._rows.sweeps.prune(KEEP_JOBS_S, PRUNE_LIMIT)),
            "old frontends": Pass(interval_s, lambda: self._rows.frontends.prune(KEEP_JOBS_S)),
        }

    def _start_worker(self) -> RunningWorker:
        return start_worker(self._broker, [CONTROL_QUEUE], STEP_THREADS)

    def _look_at_worker(self) -> None:
        """A worker whose threads have ended is made anew; until then the sweep takes the steps, later."""
        assert self._worker is not None
        health = self._worker.health()
        if health.threads_alive == health.threads_wanted and health.consumers_alive == health.consumers_wanted:
            return
        log.warning("the queue is not worked on: %s; starting anew", health.problem)
        self._worker.stop(SHUTDOWN_S)
        self._worker = self._start_worker()

    def _end(self) -> None:
        log.info("control ends")
        self._sweep.stop()
        self._ticker.stop()
        if self._worker is not None:
            self._worker.stop(SHUTDOWN_S)
        for pool in (self._steps, self._stops, self._installs):
            pool.shutdown(wait=False, cancel_futures=True)
        if not self._ownership.installs.end(SHUTDOWN_S):
            log.warning("a fetch of model files does not end; another owner may begin the same one meanwhile")
        self._keeper.stop()
        self._release()
        self._counts.stop()
        self._bus.close()
        self._broker.close()
        self._engine.dispose()

    def _release(self) -> None:
        """What this process owned goes on elsewhere at once, and not a lease later."""
        try:
            self._ownership.owner.release()
        except StorageUnavailable as error:
            log.warning("leases not given back, they lapse by themselves: %s", error.message)


def main() -> int:
    """Run until TERM or INT. Exit code 0 then, 1 where the process cannot start."""
    try:
        settings = Settings.load()
        private_memory.close_to_others(unless=settings.debuggable)
        logs.configure(settings.log_level, "control", settings.instance_id)
        crash_points.arm(settings.crash_point_file)
        control = Control(settings)
    except LocalAIError as error:
        sys.stderr.write(f"localai: {escaped(error.message)}\n")
        return 1
    with SignalWait() as signals:
        control.run(signals)
    return 0


if __name__ == "__main__":
    sys.exit(main())
