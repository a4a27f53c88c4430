"""Moves jobs as fast as the rows allow: `python -m tests.bench.fencer` reads one JSON object and writes one."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from localai import wiring
from localai.db.engine import make_engine
from localai.ids import OwnerId, new_id
from localai.jobs.event_rules import Progress
from localai.jobs.kinds import MODEL_INSTALL
from localai.jobs.ports import NewJob
from localai.settings import Settings

#: Of each job: requested, taken, moved on, finished. Each is one transaction, and each is guarded.
MOVES = 4


def main(database_url: str, threads: int, seconds: float) -> dict[str, float]:
    settings = Settings(database_url=database_url)
    rows = wiring.make_rows(make_engine(database_url, application="bench", pool_size=threads), settings)
    until = time.monotonic() + seconds

    def work(_: int) -> int:
        owner, done = OwnerId(f"bench-{new_id()}"), 0
        while time.monotonic() < until:
            _, job = rows.jobs.request(NewJob(kind=MODEL_INSTALL, subject=new_id()))
            taken = rows.jobs.take(job.id, job.generation, owner)
            progress = Progress(generation=job.generation, owner=owner, bytes_done=1, bytes_total=2)
            moved = rows.jobs.progress(job.id, progress)
            finished = rows.jobs.finish(job.id, job.generation, owner)
            if not (taken and moved and finished):
                raise RuntimeError("a move of a job that is ours touched no row")
            done += MOVES
        return done

    began = time.monotonic()
    with ThreadPoolExecutor(threads) as pool:
        moves = sum(pool.map(work, range(threads)))
    return {"moves": moves, "seconds": time.monotonic() - began}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(**json.load(sys.stdin))) + "\n")
