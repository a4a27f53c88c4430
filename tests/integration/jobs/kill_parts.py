"""What the processes of the kill test share: scaled windows, the stand-in kind, a queue that loses and doubles."""

from __future__ import annotations

import random
from dataclasses import dataclass

from localai.db.engine import make_engine
from localai.ids import JobId, NodeId
from localai.jobs.job import Windows
from localai.jobs.kinds import KINDS, Kind, OnLapse, registry
from tasks.broker import LocalBroker, ValkeyBroker, make_broker
from tasks.enqueue import DramatiqWakeups
from tests.integration.world import World

#: In the order of the defaults, some fifteen times shorter. The stop window stands well above kill TTL + report.
LEASE_S, KILL_TTL_S, STOP_S, REPORT_S, SWEEP_S, AGENT_REPORT_S = 2.0, 5.0, 10.0, 1.0, 0.2, 0.4
WINDOWS = Windows(
    lease_s=LEASE_S,
    dispatch_s=0.7,
    dispatch_max_s=5.0,
    stop_s=STOP_S,
    report_s=REPORT_S,
    silent_s=KILL_TTL_S + 1,
    adopt_fresh_s=3 * AGENT_REPORT_S,
    stop_retry_max_s=1.0,
    stop_retry_late_s=2.0,
)
STAND_IN = Kind(name="stand-in", subject_kind="stand-in", on_lapse=OnLapse.REQUEUE, max_attempts=None)
ALL_KINDS = registry(*KINDS.values(), STAND_IN)
#: Beside the schema: what was worked on, and what took effect in the transaction that ended a job well.
EXTRA_SCHEMA = """
CREATE TABLE executions (
    job_id uuid, generation bigint, subject text, pid int, started timestamptz DEFAULT clock_timestamp(), ended timestamptz
);
CREATE TABLE applied (job_id uuid, subject text, kind text, generation bigint);
CREATE FUNCTION apply() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO applied VALUES (NEW.id, NEW.subject, NEW.kind, NEW.generation);
    RETURN NEW;
END $$;
CREATE TRIGGER apply AFTER UPDATE ON jobs FOR EACH ROW WHEN (NEW.state = 'succeeded') EXECUTE FUNCTION apply();
"""


@dataclass
class LossyWakeups:
    """The real queue, which loses one message of ten and sends fifteen of a hundred twice."""

    inner: DramatiqWakeups
    draw: random.Random
    dropped: int = 0
    doubled: int = 0

    def wake_control(self, job_id: JobId, generation: int) -> None:
        for _ in range(self._times()):
            self.inner.wake_control(job_id, generation)

    def send_order(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None:
        for _ in range(self._times()):
            self.inner.send_order(node_id, job_id, op_generation)

    def forget_node(self, node_id: NodeId) -> None:
        self.inner.forget_node(node_id)

    def _times(self) -> int:
        drawn = self.draw.random()
        self.dropped += drawn < 0.10
        self.doubled += drawn >= 0.85
        return 0 if drawn < 0.10 else 2 if drawn >= 0.85 else 1


def make_world(
    database_url: str, broker_url: str, application: str, seed: int
) -> tuple[World, ValkeyBroker | LocalBroker]:
    """The services of one process of the test, and its broker."""
    broker = make_broker(broker_url)
    wakeups = LossyWakeups(DramatiqWakeups(broker), random.Random(seed))
    engine = make_engine(database_url, application=application, pool_size=8)
    return World(engine, WINDOWS, ALL_KINDS, wakeups), broker
