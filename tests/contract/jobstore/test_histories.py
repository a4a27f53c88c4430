"""Random histories give the same answers and the same rows in memory and in PostgreSQL.

Without this the simulator would prove another program than the one that runs.
"""

from __future__ import annotations

import pytest

from localai.jobs import rules
from tests.contract.jobstore.histories import History, Twins
from tests.contract.jobstore.stores import MemoryStores, PostgresStores

pytestmark = pytest.mark.contract

HISTORIES, STEPS = 30, 80
#: Every move that leaves an event; the others are seen in the rows only. A stop is given up too seldom to ask for it.
TOLD = {
    "requested",
    "taken",
    "adopted",
    "released",
    "placed",
    "resent",
    "claimed",
    "operation_ready",
    "operation_ended",
    "missing",
    "succeeded",
    "failed",
    "cancelled",
    "requeued",
    "stop_confirmed",
    "stop_sent",
}


def test_random_histories_give_the_same_rows_in_memory_and_in_postgresql(postgres: PostgresStores) -> None:
    told: set[str] = set()
    relocated = False
    for seed in range(HISTORIES):
        postgres.empty()
        memory = MemoryStores()
        history = History(seed, Twins([memory, postgres]))
        for _ in range(STEPS):
            try:
                history.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed} after {history.trail}: {error}") from None
            told |= {row.event for row in memory.event_rows()}  # old ones are pruned
            relocated |= any("instead_of" in (row.detail or {}) for row in memory.event_rows())
    assert told >= TOLD, f"the histories must go everywhere, also to {TOLD - told}"
    assert relocated, "some order goes to another node"
    assert len(rules.MOVES) == 22, "a new move needs a place in the histories"
