"""What an event or a question on the bus is called.

The words are those of ``docs/reference/bus.md``. A variable part goes through :func:`token`, so that no id or name can
widen a subject into a pattern.
"""

from __future__ import annotations

import re

from localai.ids import JobId, NodeId

#: Characters that would end a token, start a wildcard or break a protocol line.
_RESERVED = re.compile(r"[.*>\s]")

#: The routing table has a new version; payload ``{"version": <int>}``.
ROUTING_CHANGED = "routing.changed"
#: A node was registered, approved or changed its status; payload ``{"node_id": <id>}`` or empty.
NODES_CHANGED = "nodes.changed"
#: Every job's progress and every job's end.
JOB_PROGRESS = "jobs.*.progress"
JOB_RESULTS = "jobs.*.result"

#: Operation of the node link: stop one exact operation or process (StopRequest -> StopAnswer).
MODEL_STOP = "model.stop"


def token(text: str) -> str:
    """One token of a subject: every character with a meaning becomes ``-``, and nothing becomes ``-`` too."""
    return _RESERVED.sub("-", text) or "-"


def job_progress(job_id: JobId | str) -> str:
    """Where the progress of one job is announced."""
    return f"jobs.{token(job_id)}.progress"


def job_result(job_id: JobId | str) -> str:
    """Where the end of one job is announced."""
    return f"jobs.{token(job_id)}.result"


def job_of(subject: str) -> JobId:
    """The job that a subject of :data:`JOB_PROGRESS` or :data:`JOB_RESULTS` is about. Raises ValueError."""
    parts = subject.split(".")
    if len(parts) != 3 or parts[0] != "jobs":
        raise ValueError(f"{subject!r} is not about a job")
    return JobId(parts[1])


def node_operation(node_id: NodeId | str, operation: str) -> str:
    """Where one node answers one operation; ``operation`` is a word of this module such as ``model.stop``."""
    return f"nodes.{token(node_id)}.{operation}"


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to ``pattern`` receives ``subject``: ``*`` is one token, ``>`` one or more at the end."""
    wanted, given = pattern.split("."), subject.split(".")
    for place, part in enumerate(wanted):
        if part == ">":
            return len(given) > place
        if place >= len(given) or part not in ("*", given[place]):
            return False
    return len(wanted) == len(given)
