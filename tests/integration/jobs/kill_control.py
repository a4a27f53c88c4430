"""One control process of the kill test: two queue threads, keeper, sweep, and work that its owner does itself."""

from __future__ import annotations

import os
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from localai import logs
from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId
from localai.jobs.job import Job
from localai.jobs.owner import Owner
from tasks.actors import register_control_actors
from tasks.keeper import Keeper
from tasks.queues import CONTROL_QUEUE
from tasks.sweep import Later, SweepThread
from tasks.worker import start_worker
from tests.integration.jobs.kill_parts import LEASE_S, SWEEP_S, make_world
from tests.integration.world import Control, World


class StandInSteps:
    """Work that takes a moment, done at least once for each job; its effect on rows is exactly once."""

    def __init__(self, world: World, owner: Owner, pool: ThreadPoolExecutor) -> None:
        self._world, self._owner, self._pool = world, owner, pool
        self._running: set[tuple[JobId, int]] = set()
        self._pause = threading.Event()

    def due(self, job: Job) -> bool:
        return (job.id, job.generation) not in self._running

    def step(self, job: Job) -> None:
        if self.due(job):
            self._running.add((job.id, job.generation))
            self._pool.submit(self._work, job)

    def _work(self, job: Job) -> None:
        key = {"id": job.id, "g": job.generation}
        try:
            self._world.sql(
                "INSERT INTO executions (job_id, generation, subject, pid) VALUES (%(id)s, %(g)s, %(s)s, %(p)s)",
                **key,
                s=job.subject,
                p=os.getpid(),
            )
            self._pause.wait(random.uniform(0.02, 0.3))
            self._owner.finish(job)
        except (Replaced, StorageUnavailable):
            logs.get(__name__).warning("not finished here")
        finally:
            self._running.discard((job.id, job.generation))


def main(database_url: str, broker_url: str, seed: int) -> None:
    logs.configure("warning", f"control-{os.getpid()}")
    world, broker = make_world(database_url, broker_url, "kill-control", seed)
    steps, work = ThreadPoolExecutor(2), ThreadPoolExecutor(4)
    more = {"stand-in": lambda owner: StandInSteps(world, owner, work)}
    control = Control(world, more=more, later=Later(steps).step)
    register_control_actors(broker, control.stepper.step)  # type: ignore[arg-type]
    Keeper(control.owner, LEASE_S / 4).start()
    SweepThread(control.sweep, SWEEP_S).start()
    start_worker(broker, [CONTROL_QUEUE], 2)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
