"""Which registration a join token opens."""

from __future__ import annotations

import pytest

from localai.errors import BadInput, JoinTokenRefused
from localai.nodes.invitation_rules import LONGEST_S, SHORTEST_S, Invitation, check_lifetime, is_first_use
from localai.nodes.rules import Registration
from tests.unit.jobs.builders import NOW, at

pytestmark = pytest.mark.unit


def invitation(expires_at: int = 60, secret_hash: str | None = None) -> Invitation:
    return Invitation(node_name="gpu-1", expires_at=at(expires_at), secret_hash=secret_hash, now=NOW)


def asks(name: str = "gpu-1", secret_hash: str | None = "own") -> Registration:
    return Registration(name=name, address="a:1", secret_hash=secret_hash)


def test_the_first_registration_under_its_name_uses_it() -> None:
    assert is_first_use(invitation(), asks())


@pytest.mark.parametrize("expires_at", [60, -60])
def test_the_worker_that_used_it_shows_it_again_at_each_start(expires_at: int) -> None:
    assert not is_first_use(invitation(expires_at, "own"), asks())


@pytest.mark.parametrize(
    ("row", "registration", "said"),
    [
        (None, asks(), "unknown"),
        (invitation(), asks("gpu-2"), "'gpu-1'.*'gpu-2'"),
        (invitation(0), asks(), "expired"),
        (invitation(-1), asks(), "expired"),
        (invitation(secret_hash="own"), asks(secret_hash="other"), "another worker"),
    ],
)
def test_any_other_registration_is_refused_with_the_reason(
    row: Invitation | None, registration: Registration, said: str
) -> None:
    with pytest.raises(JoinTokenRefused, match=said):
        is_first_use(row, registration)


@pytest.mark.parametrize("row", [invitation(), invitation(secret_hash="own")])
def test_a_worker_without_a_secret_cannot_use_one(row: Invitation) -> None:
    with pytest.raises(BadInput, match="secret"):
        is_first_use(row, asks(secret_hash=None))


@pytest.mark.parametrize("seconds", [SHORTEST_S - 1, LONGEST_S + 1, 0, -1])
def test_its_lifetime_has_bounds(seconds: int) -> None:
    check_lifetime(SHORTEST_S)
    check_lifetime(LONGEST_S)
    with pytest.raises(BadInput, match="60 to 604800 seconds"):
        check_lifetime(seconds)
