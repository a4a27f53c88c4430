"""How a replica ends whose own process says that it holds no model, or another."""

from __future__ import annotations

from collections.abc import Callable

from localai.bus.ports import Events
from localai.bus.subjects import ROUTING_CHANGED
from localai.db.unit_of_work import UnitOfWorkFactory
from localai.replicas.store import Leftover

#: Only the very process that said so. An `unloading` row never comes back.
_RETIRE = """
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE id = %(id)s AND process_instance = %(instance)s AND state = 'loaded'
RETURNING node_id, model, slot, address, process_instance, job_id, op_generation
"""
#: Last in its transaction, as everywhere: numbers commit in the order they are drawn.
_RAISE_VERSION = "UPDATE routing_version SET v = v + 1"


class Retirement:
    """Makes replicas unroutable for every web process, and has their processes stopped.

    `stop` is called after the commit; a stop that is lost here is found by the pass over outdated replicas.
    """

    def __init__(self, unit_of_work: UnitOfWorkFactory, events: Events, stop: Callable[[Leftover], object]) -> None:
        self._unit_of_work, self._events, self._stop = unit_of_work, events, stop

    def retire(self, replica_id: str, process_instance: str) -> None:
        """Route nobody to this process any more; a repeat changes nothing. Raises StorageUnavailable."""
        with self._unit_of_work() as uow:
            row = uow.execute(_RETIRE, {"id": replica_id, "instance": process_instance}).mappings().first()
            if row is None:
                return
            uow.execute(_RAISE_VERSION)
        self._events.publish(ROUTING_CHANGED, {})
        self._stop(Leftover(**row))
