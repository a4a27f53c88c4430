"""A lease of our own is over before the database says so."""

from __future__ import annotations

import pytest

from localai.ids import JobId
from localai.jobs.leases import LeaseBook

pytestmark = pytest.mark.unit
JOB = JobId("job")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def book(clock: Clock) -> LeaseBook:
    return LeaseBook(30.0, clock)


def test_a_lease_counts_from_before_the_take_was_sent(book: LeaseBook, clock: Clock) -> None:
    sent_at = book.now()
    clock.now += 10
    assert book.hold(JOB, 1, sent_at)
    clock.now = sent_at + 29.9
    assert book.valid(JOB, 1)
    clock.now = sent_at + 30
    assert not book.valid(JOB, 1)


def test_a_renewal_prolongs_only_the_generation_it_asked_for(book: LeaseBook, clock: Clock) -> None:
    book.hold(JOB, 1, clock.now)
    book.renewed([(JOB, 2)], [JOB], clock.now + 20)
    clock.now += 30
    assert not book.valid(JOB, 1)


def test_a_job_that_was_dropped_is_never_held_again_under_its_generation(book: LeaseBook, clock: Clock) -> None:
    book.hold(JOB, 1, clock.now)
    book.drop(JOB, 1)
    assert not book.hold(JOB, 1, clock.now)
    assert book.knows(JOB, 1)
    assert not book.valid(JOB, 1)
    assert book.hold(JOB, 2, clock.now)


def test_what_was_adopted_under_a_new_generation_outlives_the_drop_of_the_old_one(
    book: LeaseBook, clock: Clock
) -> None:
    book.hold(JOB, 1, clock.now)
    book.hold(JOB, 2, clock.now)
    book.drop(JOB, 1)
    assert book.valid(JOB, 2)


def test_a_frozen_process_finds_its_leases_over_before_it_renews_them(book: LeaseBook, clock: Clock) -> None:
    book.hold(JOB, 1, clock.now)
    clock.now += 1000
    assert book.held() == []
    assert not book.hold(JOB, 1, clock.now)


def test_a_job_that_ended_by_our_own_hand_is_no_longer_renewed(book: LeaseBook, clock: Clock) -> None:
    book.hold(JOB, 1, clock.now)
    book.done(JOB)
    assert book.held() == []
