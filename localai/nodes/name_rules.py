"""Which texts may name a node.

A node name stands in log lines, file names, metric labels and command lines; with these characters it is itself in all
of them.
"""

from __future__ import annotations

import re

from localai.errors import BadInput

#: As long as a label of a host name.
LONGEST = 63
ACCEPTED = f"1 to {LONGEST} letters, digits and signs of . _ - in ASCII (LOCALAI_NODE_NAME of the worker)"

_USABLE = re.compile(f"[A-Za-z0-9._-]{{1,{LONGEST}}}", re.ASCII)
_OTHER = re.compile("[^A-Za-z0-9._-]+", re.ASCII)


def check_new(name: str) -> None:
    """Refuse a name for a node that has no row yet. Raises BadInput.

    A node of an earlier version that registered under another name keeps it.
    """
    if not _USABLE.fullmatch(name):
        raise BadInput("name", name, ACCEPTED)


def fitted(hostname: str) -> str:
    """The node name made from a host name; the host name itself if it is usable."""
    return _OTHER.sub("-", hostname)[:LONGEST].strip("-") or "node"
