"""Whether a join token opens a registration.

A join token is for one node name. Its first registration binds it to the secret of that worker: from then on it is of
use to this worker only, which shows it again at each start.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime

from localai.errors import BadInput, JoinTokenRefused
from localai.nodes.rules import Registration

#: The beginning of every join token, so that people and frontends tell it from a registration token.
PREFIX = "join-"
#: Seconds in which a token may be used first: the shortest, the usual and the longest time.
SHORTEST_S, USUAL_S, LONGEST_S = 60, 3600, 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """The row of a join token. ``now`` is the database's clock."""

    node_name: str
    expires_at: datetime
    #: SHA-256 of the secret that the first registration showed; None before it.
    secret_hash: str | None
    now: datetime


def check_lifetime(seconds: int) -> None:
    """Refuse a lifetime out of bounds. Raises BadInput."""
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise BadInput("expires_in", seconds, f"{SHORTEST_S} to {LONGEST_S} seconds")


def is_first_use(invitation: Invitation | None, registration: Registration) -> bool:
    """Whether the registration is the one that the token was made for, or a later one of the same worker.

    Raises JoinTokenRefused, BadInput for a worker without a secret, to which no token can be bound.
    """
    if invitation is None:
        raise JoinTokenRefused("the join token is unknown: it was replaced by a newer one, or its node was removed")
    if invitation.node_name != registration.name:
        raise JoinTokenRefused(
            f"the join token is for the node name {invitation.node_name!r}, and this worker registers as "
            f"{registration.name!r}: set LOCALAI_NODE_NAME"
        )
    if registration.secret_hash is None:
        raise BadInput("secret", None, "the secret of the worker: a join token needs a worker of version 0.2 or later")
    if invitation.secret_hash is not None:
        if not hmac.compare_digest(invitation.secret_hash, registration.secret_hash):
            raise JoinTokenRefused("the join token was used by another worker, or by one with a data folder now lost")
        return False
    if invitation.expires_at <= invitation.now:
        raise JoinTokenRefused("the join token has expired: `localai nodes invite` makes a new one")
    return True
