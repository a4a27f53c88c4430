"""How many messages wait on the queues?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import redis

from tasks.broker import LocalBroker, ValkeyBroker
from tasks.queues import CONTROL_QUEUE, node_queue


def queue_depths(broker: ValkeyBroker | LocalBroker, node_ids: Sequence[str]) -> Mapping[str | None, int] | None:
    """Messages that nobody has fetched: of the control queue under None, of each node under its id.

    None when the broker does not answer within its socket timeout. One round trip.
    """
    if isinstance(broker, LocalBroker):
        return {
            None: _waiting(broker, CONTROL_QUEUE),
            **{node: _waiting(broker, node_queue(node)) for node in node_ids},
        }
    try:
        pipeline = broker.client.pipeline(transaction=False)
        for queue in (CONTROL_QUEUE, *map(node_queue, node_ids)):
            pipeline.llen(f"{broker.namespace}:{queue}")
        return dict(zip((None, *node_ids), pipeline.execute(), strict=True))
    except (redis.RedisError, OSError):
        return None


def _waiting(broker: LocalBroker, queue: str) -> int:
    found = broker.queues.get(queue)
    return found.qsize() if found is not None else 0
