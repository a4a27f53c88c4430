"""Whether a registration under a known node name keeps the node, waits for an approval, or is refused.

A name is no proof. A worker proves that a node is its own by the secret in its data folder; the row holds the SHA-256.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from localai.nodes.host_rules import host_of
from localai.nodes.rules import Registration, Status


class Admission(StrEnum):
    """What becomes of a registration."""

    ADMITTED = "admitted"  # the node is the worker's own: its approval stays
    MOVED = "moved"  # the secret is the node's, the host is another one: the node is pending again
    UNPROVEN = "unproven"  # the name is free, the approval is not: the node is pending again
    REFUSED = "refused"  # another worker reports under this name


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """The row that a registration finds under its name. ``now`` is the database's clock."""

    status: Status
    status_at: datetime
    last_heartbeat: datetime | None
    address: str | None
    http_address: str | None
    secret_hash: str | None
    #: When an older incarnation was last heard of after another address had registered: two workers live.
    contested_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the settings of the frontend say about one registration."""

    #: A node without a heartbeat for this long is silent.
    stale_after_s: float
    #: Approved without an administrator.
    approve: bool = False
    #: Approved without an administrator if the node is new or the worker's own: its name is in the settings.
    approve_own: bool = False
    #: The settings name this very secret: it needs no other proof.
    vouched: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The admission, and the reason for people; an admitted registration has none."""

    admission: Admission
    reason: str = ""


def decide(known: KnownNode | None, registration: Registration, terms: Terms) -> Decision:
    """Judge a registration against the row of its name, None for a new name.

    A row without a hash is of an agent that sent no secret: the first one that a registration brings binds it, and
    registrations without one go on as before. Whatever is shown, another host needs an approval of its own: requests
    and the variables of models go there.
    """
    if known is None or terms.vouched:
        return Decision(Admission.ADMITTED)
    found = _judge(known, registration, terms)
    if found.admission is not Admission.ADMITTED or not _other_host(known, registration):
        return found
    if known.secret_hash is None:
        return Decision(Admission.UNPROVEN, _moved(known, registration, "without a secret"))
    return Decision(Admission.MOVED, _moved(known, registration, "with the secret of this node"))


def _judge(known: KnownNode, registration: Registration, terms: Terms) -> Decision:
    """Whose the node is by its secret."""
    running = reports(known, terms.stale_after_s)
    free = _at_its_place(known, registration) or not running
    if known.secret_hash is None:
        if free or registration.secret_hash is None:
            return Decision(Admission.ADMITTED)
        return Decision(Admission.REFUSED, _taken(known, registration))
    if not hmac.compare_digest(known.secret_hash, registration.secret_hash or ""):
        if running:
            return Decision(Admission.REFUSED, _taken(known, registration))
        return Decision(Admission.UNPROVEN, _unproven(known, registration))
    if free or known.contested_at is None:
        return Decision(Admission.ADMITTED)
    return Decision(Admission.REFUSED, _copied(known, registration))


def reports(known: KnownNode, stale_after_s: float) -> bool:
    """Whether the node's worker counts as running.

    A node in use does until the stale pass has judged it silent, so that an outage of the frontends frees no name.
    """
    if known.last_heartbeat is None:
        return False
    fresh = (known.now - known.last_heartbeat).total_seconds() < stale_after_s
    if known.status is Status.PENDING:
        return fresh
    return known.status is not Status.OFFLINE or (fresh and known.last_heartbeat > known.status_at)


def moves(known: KnownNode | None, registration: Registration) -> bool:
    """Whether the registration gives the node another address."""
    return known is not None and not _at_its_place(known, registration)


def _at_its_place(known: KnownNode, registration: Registration) -> bool:
    return (known.address or "", known.http_address or "") == (
        registration.address or "",
        registration.http_address or "",
    )


def _other_host(known: KnownNode, registration: Registration) -> bool:
    return (host_of(known.address), host_of(known.http_address)) != (
        host_of(registration.address),
        host_of(registration.http_address),
    )


def _taken(known: KnownNode, registration: Registration) -> str:
    return (
        f"node name {registration.name!r} is taken: the worker at {_place(known)} reports under it, and the worker at "
        f"{_place(registration)} does not show its secret; set LOCALAI_NODE_NAME to another name, or stop the other "
        "worker"
    )


def _copied(known: KnownNode, registration: Registration) -> str:
    return (
        f"node name {registration.name!r} is taken: the workers at {_place(known)} and at {_place(registration)} both "
        "run and show the same secret, so the data folder of one is a copy; delete the file node-secret in the copy "
        "and set LOCALAI_NODE_NAME to another name there"
    )


def _unproven(known: KnownNode, registration: Registration) -> str:
    return (
        f"the worker at {_place(registration)} registered without the secret of the earlier worker at {_place(known)}, "
        "which is silent: a lost data folder, or another machine with the same name"
    )


def _moved(known: KnownNode, registration: Registration, how: str) -> str:
    return (
        f"the worker at {_place(registration)} registered {how} from another host than before, {_place(known)}: a "
        "machine with a new address, or a copied data folder; a host name in LOCALAI_ADVERTISE_ADDR and "
        "LOCALAI_ADVERTISE_HTTP_ADDR of the worker stays the same when its address changes"
    )


def _place(found: KnownNode | Registration) -> str:
    return f"{found.address or 'unknown address'} (HTTP {found.http_address or 'unknown'})"
