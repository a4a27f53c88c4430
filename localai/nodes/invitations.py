"""Join tokens: an administrator makes one for a node name, and one worker joins with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from localai.db.queries import load_queries
from localai.db.unit_of_work import UnitOfWork, UnitOfWorkFactory
from localai.ids import NodeId, new_id
from localai.nodes.credentials import draw, hash_of
from localai.nodes.invitation_rules import PREFIX, Invitation, check_lifetime, is_first_use
from localai.nodes.name_rules import check_new
from localai.nodes.rules import Registration

SQL = load_queries("localai.nodes")


@dataclass(frozen=True, slots=True)
class JoinToken:
    """A new token. It is shown once: the database keeps its hash."""

    token: str
    name: str
    expires_at: datetime


class Invitations:
    """Rows of join tokens. Every method is one transaction and raises StorageUnavailable."""

    def __init__(self, unit_of_work: UnitOfWorkFactory) -> None:
        self._unit_of_work = unit_of_work

    def invite(self, name: str, expires_in_s: int) -> JoinToken:
        """A token for the worker of this name; it replaces an unused one. Raises BadInput."""
        check_new(name)
        check_lifetime(expires_in_s)
        token = PREFIX + draw()
        parameters = {"id": new_id(), "token_hash": hash_of(token), "name": name, "seconds": expires_in_s}
        with self._unit_of_work() as uow:
            uow.execute(SQL["drop_unused_join_tokens"], {"name": name})
            expires_at = uow.execute(SQL["make_join_token"], parameters).scalar_one()
        return JoinToken(token, name, expires_at)

    def knows(self, token: str) -> bool:
        """Whether this is a join token, used or not."""
        if not token.startswith(PREFIX):
            return False
        with self._unit_of_work() as uow:
            return uow.execute(SQL["join_token"], {"token_hash": hash_of(token)}).first() is not None


def first_use(uow: UnitOfWork, token_hash: str, registration: Registration) -> bool:
    """As `is_first_use`, in the transaction of the registration. Holds the token's row until its end."""
    row = uow.execute(SQL["lock_join_token"], {"token_hash": token_hash}).mappings().first()
    return is_first_use(None if row is None else Invitation(**row), registration)


def bind(uow: UnitOfWork, token_hash: str, node_id: NodeId, registration: Registration) -> None:
    """The token is this worker's from now on."""
    uow.execute(
        SQL["bind_join_token"],
        {"token_hash": token_hash, "node": node_id, "secret_hash": registration.secret_hash},
    )
