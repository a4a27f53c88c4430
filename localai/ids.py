"""Which kinds of identity exist. A node id in a job id's place is a type error."""

from __future__ import annotations

import uuid
from typing import NewType

JobId = NewType("JobId", str)
NodeId = NewType("NodeId", str)
ReplicaId = NewType("ReplicaId", str)
FrontendId = NewType("FrontendId", str)
#: One start of one model process; in its environment, in the journal and in the replica row.
ProcessInstance = NewType("ProcessInstance", str)
#: Name of one control process as the owner of jobs.
OwnerId = NewType("OwnerId", str)


def new_id() -> str:
    """A new random UUID as text."""
    return str(uuid.uuid4())


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual form."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except (ValueError, AttributeError, TypeError):
        return False
