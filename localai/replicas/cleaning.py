"""How replicas that may serve no more get their processes stopped: each becomes a ``replica.cleanup`` job.

The one rule behind edits, unloads and processes that lost their model: the row is marked and committed, every live
frontend has said that it routes there no more and has no request left there, and only then there is a job that stops
the exact process.
"""

from __future__ import annotations

from localai.jobs.announce import Announcer
from localai.jobs.kinds import REPLICA_CLEANUP
from localai.jobs.ports import JobIntake, NewJob
from localai.jobs.requests import request
from localai.replicas.store import PgReplicaStore

#: Rows that one pass looks at.
LIMIT = 100


class Cleaning:
    """A pass that any control process may run at any time; a job that exists already is not made again."""

    def __init__(self, replicas: PgReplicaStore, intake: JobIntake, announcer: Announcer) -> None:
        self._replicas, self._intake, self._announcer = replicas, intake, announcer

    def run(self) -> None:
        """Ask for the cleanup of every drained replica that nothing stops yet."""
        for left in self._replicas.to_clean(LIMIT):
            args = {
                "model": left.model,
                "slot": left.slot,
                "address": left.address,
                "job_id": left.job_id,
                "op_generation": left.op_generation,
            }
            new = NewJob(
                kind=REPLICA_CLEANUP,
                subject=left.process_instance,
                parent_id=left.parent_id,
                node_id=left.node_id,
                args=args,
            )
            request(self._intake, self._announcer, new)
