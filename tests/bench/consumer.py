"""An agent's end of a node queue: says when each message arrived. `python -m tests.bench.consumer BROKER_URL NODE_ID`."""

from __future__ import annotations

import signal
import sys
import time

import dramatiq

from tasks import names
from tasks.broker import make_broker
from tasks.queues import node_queue
from tasks.worker import start_worker
from worker_agent.actors import THREADS


def main(broker_url: str, node_id: str) -> None:
    broker, queue = make_broker(broker_url), node_queue(node_id)

    def take(job_id: str, op_generation: int) -> None:
        sys.stdout.write(f"{op_generation} {time.monotonic()}\n")
        sys.stdout.flush()

    dramatiq.actor(broker=broker, actor_name=names.RUN_OPERATION, queue_name=queue)(take)
    start_worker(broker, [queue], THREADS)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
