"""Which kinds of identity exist. A node id in a job id's place is a type error."""

from __future__ import annotations

import re
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


_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def new_id() -> str:
    """A new random UUID as text."""
    return str(uuid.uuid4())


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID in its usual form."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None
