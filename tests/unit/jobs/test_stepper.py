"""A step is taken by whoever may take it, once at a time, and a fault of ours ends the job instead of repeating."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import cast

import pytest

from localai.bus.memory import MemoryBus
from localai.errors import Replaced, StorageUnavailable
from localai.ids import JobId, NodeId, OwnerId
from localai.jobs import rules
from localai.jobs.announce import Announcer
from localai.jobs.event_rules import Event, Fail, FinishWork, Take
from localai.jobs.job import Job, State
from localai.jobs.leases import LeaseBook
from localai.jobs.owner import Owner
from localai.jobs.ports import JobReads, OwnerMoves, Renewal
from localai.jobs.stepper import JobStepper
from tests.unit.jobs.builders import NOW, OWNER, WINDOWS, at, queued, running, stopping

pytestmark = pytest.mark.unit
JOB = JobId("job-1")


class OneRow:
    """The rows of one job, moved by the pure rules."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def get(self, job_id: JobId) -> Job | None:
        return self.job if job_id == self.job.id else None

    def _apply(self, event: Event) -> Job | None:
        outcome = rules.decide(self.job, event, NOW, WINDOWS)
        if isinstance(outcome, rules.Refused):
            return None
        self.job = outcome.job
        return self.job

    def take(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        return self._apply(Take(generation=generation, owner=owner))

    def renew(self, owner: OwnerId, held: Collection[tuple[JobId, int]]) -> Renewal:
        mine = self.job.owner == owner and self.job.lease_valid(NOW)
        return Renewal(frozenset({self.job.id} if mine else ()), frozenset())

    def fail(self, job_id: JobId, event: Fail) -> Job | None:
        return self._apply(event)

    def finish(self, job_id: JobId, generation: int, owner: OwnerId) -> Job | None:
        return self._apply(FinishWork(generation=generation, owner=owner))


class NoWakeups:
    def wake_control(self, job_id: JobId, generation: int) -> None: ...
    def send_order(self, node_id: NodeId, job_id: JobId, op_generation: int) -> None: ...
    def forget_node(self, node_id: NodeId) -> None: ...


class Steps:
    def __init__(self, work: Callable[[Job], object]) -> None:
        self.seen: list[Job] = []
        self._work = work
        self.nothing_is_due = False

    def due(self, job: Job) -> bool:
        return not self.nothing_is_due

    def step(self, job: Job) -> None:
        self.seen.append(job)
        self._work(job)


def made(row: OneRow, work: Callable[[Job], object] = lambda job: None) -> tuple[JobStepper, Steps, Owner, list[Job]]:
    stopped: list[Job] = []
    steps = Steps(work)
    owner = Owner(OWNER, cast(OwnerMoves, row), LeaseBook(30.0, lambda: 0.0), Announcer(NoWakeups(), MemoryBus()))
    stepper = JobStepper(cast(JobReads, row), owner, {"model.load": steps}, stop=stopped.append)
    return stepper, steps, owner, stopped


def test_a_queued_job_is_taken_and_stepped() -> None:
    stepper, steps, _, _ = made(row := OneRow(queued()))
    stepper.step(JOB, 7)
    assert [job.state for job in steps.seen] == [State.RUNNING]
    assert row.job.owner == OWNER


@pytest.mark.parametrize(
    ("job", "generation"),
    [
        (queued(), 6),
        (queued(kind="of-a-newer-version"), 7),
        (running(owner=OwnerId("other")), 7),
        (running(state=State.SUCCEEDED, lease_expires_at=None, finished_at=at(-1)), 7),
    ],
)
def test_nothing_is_done_about_a_job_that_is_not_ours_to_step(job: Job, generation: int) -> None:
    stepper, steps, _, stopped = made(row := OneRow(job))
    stepper.step(JOB, generation)
    assert (steps.seen, stopped, row.job) == ([], [], job)


def test_a_take_whose_answer_was_lost_is_renewed_before_it_is_stepped() -> None:
    stepper, steps, owner, _ = made(OneRow(running()))
    stepper.step(JOB, 7)
    assert len(steps.seen) == 1
    assert owner.leases.valid(JOB, 7)


def test_a_job_we_dropped_is_not_stepped_though_its_row_names_us() -> None:
    stepper, steps, owner, _ = made(OneRow(running()))
    owner.leases.hold(JOB, 7, 0.0)
    owner.leases.drop(JOB, 7)
    stepper.step(JOB, 7)
    assert steps.seen == []


def test_a_job_that_names_us_and_that_we_do_not_know_is_due_whatever_its_kind_says() -> None:
    stepper, steps, owner, _ = made(OneRow(running()))
    steps.nothing_is_due = True
    assert stepper.due(running())
    owner.leases.hold(JOB, 7, 0.0)
    assert not stepper.due(running())


def test_a_doomed_job_with_a_pending_stop_is_stopped_by_anybody() -> None:
    stepper, _, _, stopped = made(OneRow(stopping(owner=OwnerId("dead"))))
    stepper.step(JOB, 7)
    assert [job.id for job in stopped] == [JOB]


def test_a_fault_of_ours_fails_the_job_once_and_visibly() -> None:
    def fault(job: Job) -> None:
        raise ZeroDivisionError

    stepper, steps, _, _ = made(row := OneRow(queued()), fault)
    stepper.step(JOB, 7)
    stepper.step(JOB, 7)
    assert (row.job.state, row.job.error_cause, len(steps.seen)) == (State.FAILED, "internal", 1)
    assert "ZeroDivisionError" in (row.job.error or "")


@pytest.mark.parametrize("error", [Replaced, StorageUnavailable])
def test_what_another_hint_may_mend_fails_nothing(error: type[Exception]) -> None:
    def refuse(job: Job) -> None:
        raise error

    stepper, _, _, _ = made(row := OneRow(queued()), refuse)
    stepper.step(JOB, 7)
    assert row.job.state == State.RUNNING


def test_hints_that_come_during_a_step_lead_to_one_more_step() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(job: Job) -> None:
        begun.set()
        assert go_on.wait(30)

    stepper, steps, _, _ = made(OneRow(running()), wait)
    thread = threading.Thread(target=stepper.step, args=(JOB, 7))
    thread.start()
    assert begun.wait(30)
    for _ in range(5):
        stepper.step(JOB, 7)
    go_on.set()
    thread.join(30)
    assert len(steps.seen) == 2


def test_an_owner_acts_only_under_a_lease_that_holds_by_its_own_clock() -> None:
    now = [0.0]
    row = OneRow(queued())
    leases = LeaseBook(30.0, lambda: now[0])
    owner = Owner(OWNER, cast(OwnerMoves, row), leases, Announcer(NoWakeups(), MemoryBus()))
    taken = owner.take(row.job)
    assert taken is not None
    now[0] = 31.0
    with pytest.raises(Replaced):
        owner.finish(taken)
    assert row.job.state == State.RUNNING
    assert not owner.holds(row.job)


def test_an_owner_drops_what_its_statement_did_not_touch() -> None:
    row = OneRow(queued())
    owner = Owner(OWNER, cast(OwnerMoves, row), LeaseBook(30.0, lambda: 0.0), Announcer(NoWakeups(), MemoryBus()))
    taken = owner.take(row.job)
    assert taken is not None
    row.job = replace(row.job, generation=8, owner=OwnerId("other"))
    with pytest.raises(Replaced):
        owner.fail(taken, "internal", "x", ended=True)
    assert not owner.leases.valid(JOB, 7)


class Renewing:
    def __init__(self, answer: Renewal) -> None:
        self.answer, self.asked = answer, []  # type: tuple[Renewal, list[Sequence[Any]]]

    def renew(self, owner: OwnerId, held: Collection[tuple[JobId, int]]) -> Renewal:
        self.asked.append(list(held))
        return self.answer


def test_one_renewal_serves_all_jobs_and_drops_only_what_was_lost() -> None:
    a, b, c = JobId("a"), JobId("b"), JobId("c")
    moves = Renewing(Renewal(frozenset({a}), frozenset({b})))
    owner = Owner(OWNER, cast(OwnerMoves, moves), LeaseBook(30.0, lambda: 0.0), Announcer(NoWakeups(), MemoryBus()))
    for job_id in (a, b, c):
        owner.leases.hold(job_id, 1, 0.0)
    owner.renew()
    assert moves.asked == [[(a, 1), (b, 1), (c, 1)]]
    assert owner.leases.held() == [(a, 1), (b, 1)]
