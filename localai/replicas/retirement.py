"""How a replica ends whose own process says that it holds no model, or another."""

from __future__ import annotations

from localai.bus.ports import Events
from localai.bus.subjects import ROUTING_CHANGED
from localai.db.unit_of_work import UnitOfWorkFactory

#: Only the very process that said so. An `unloading` row never comes back.
_RETIRE = """
UPDATE replicas SET state = 'unloading', updated_at = clock_timestamp()
 WHERE id = %(id)s AND process_instance = %(instance)s AND state = 'loaded'
RETURNING id
"""
#: Last in its transaction, as everywhere: numbers commit in the order they are drawn.
_RAISE_VERSION = "UPDATE routing_version SET v = v + 1"


class Retirement:
    """Makes replicas unroutable for every web process; the pass over drained replicas has their processes stopped."""

    def __init__(self, unit_of_work: UnitOfWorkFactory, events: Events) -> None:
        self._unit_of_work, self._events = unit_of_work, events

    def retire(self, replica_id: str, process_instance: str) -> None:
        """Route nobody to this process any more; a repeat changes nothing. Raises StorageUnavailable."""
        with self._unit_of_work() as uow:
            if uow.execute(_RETIRE, {"id": replica_id, "instance": process_instance}).first() is None:
                return
            uow.execute(_RAISE_VERSION)
        self._events.publish(ROUTING_CHANGED, {})
