"""Failed logins are limited by address and by account, and no stranger locks the owner of the key out."""

from __future__ import annotations

import pytest

from localai.errors import TooManyLogins
from web.auth.attempts import FAILURES, WINDOW_S, Attempts

pytestmark = pytest.mark.unit


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def attempts(clock: Clock) -> Attempts:
    return Attempts(clock)


def test_ten_failures_of_an_address_and_the_next_waits(attempts: Attempts, clock: Clock) -> None:
    for _ in range(FAILURES):
        attempts.check("192.0.2.1")
        attempts.failed("192.0.2.1")
        clock.now += 1
    with pytest.raises(TooManyLogins) as refused:
        attempts.check("192.0.2.1")
    assert refused.value.retry_after_s == WINDOW_S - FAILURES + 1  # rounded up: no sooner
    clock.now += WINDOW_S - FAILURES
    attempts.check("192.0.2.1")


def test_many_addresses_share_the_bound_of_the_account(attempts: Attempts) -> None:
    for number in range(FAILURES):
        attempts.check(f"192.0.2.{number}")
        attempts.failed(f"192.0.2.{number}")
    with pytest.raises(TooManyLogins):
        attempts.check("192.0.2.3")
    attempts.check("198.51.100.1")  # the owner of the key


def test_failures_are_forgotten(attempts: Attempts, clock: Clock) -> None:
    for _ in range(FAILURES):
        attempts.failed("192.0.2.1")
    clock.now += WINDOW_S
    attempts.check("192.0.2.1")


def test_the_addresses_that_are_remembered_are_bounded(attempts: Attempts) -> None:
    for number in range(12_000):
        attempts.failed(f"a{number}")
    assert len(attempts._addresses) == 10_000
