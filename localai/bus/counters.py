"""What a bus counts, for metrics and tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BusCounters:
    """Sums since the start of the process. Written without a lock: read them as close, not as exact."""

    published: int = 0  # events and answers handed to the bus
    dropped: int = 0  # of these, thrown away: not connected for long, too large, closed
    received: int = 0  # events and requests that arrived and could be read
    malformed: int = 0  # messages that were not one JSON object
    overflowed: int = 0  # events that did not fit into the mailbox of this process
    handler_errors: int = 0
    connects: int = 0  # connections that came up, the first one included
    connect_failures: int = 0  # attempts since the last connection that came up
    server_errors: int = 0  # errors the server sent, such as a refused subscription
