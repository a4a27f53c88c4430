"""The table under its lock: which thread came first, and what it could still decide."""

from __future__ import annotations

import threading

import pytest

from localai.jobs.operation_rules import Answer, OperationAnswer, OperationError, OpState, Phase, StopRequest
from tests.unit.worker_agent.factories import JOB, Clock, order, running
from worker_agent.operations import Operations
from worker_agent.processes.rules import Stage, StartMove
from worker_agent.work import OperationStopped, Work

pytestmark = pytest.mark.unit

KEY = (JOB, 1)
KILL_TTL_S = 90.0
WHY = OperationError(cause="start_failed", message="why")


class Group:
    """A process group that ends when the test says so."""

    def __init__(self) -> None:
        self.exited = False
        self.ends = 0
        self.graces: list[float | None] = []

    def has_exited(self) -> bool:
        return self.exited

    def end_soon(self, grace_s: float | None = None) -> None:
        self.ends += 1
        self.graces.append(grace_s)


class Table:
    """Operations on a clock that the test moves, and how often news came."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.news = 0
        self.operations = Operations(kill_ttl_s=KILL_TTL_S, clock=self.clock, changed=self._changed)

    def _changed(self) -> None:
        self.news += 1

    def stage(self, key: tuple[str, int] = KEY) -> Stage | None:
        operation = self.operations.operation(key)
        return operation and operation.stage

    def working(self) -> Work:
        work = self.operations.enter(KEY)
        assert work is not None
        assert self.operations.granted(KEY, order(), self.clock())
        return work

    def started(self) -> tuple[Work, Group]:
        work, group = self.working(), Group()
        assert self.operations.attach(running(), group)
        return work, group

    def ready(self) -> tuple[Work, Group]:
        work, group = self.started()
        assert self.operations.become_ready(KEY, "m")
        self.operations.thread_done(KEY, work)
        return work, group

    def answer(self, answer: Answer, sent_at: float | None = None) -> None:
        found = OperationAnswer(job_id=JOB, op_generation=1, answer=answer)
        self.operations.apply((found,), self.clock() if sent_at is None else sent_at)


@pytest.fixture
def table() -> Table:
    return Table()


def test_c01_an_operation_is_entered_once_and_a_tombstone_counts(table: Table) -> None:
    assert table.operations.enter(KEY) is not None
    assert table.operations.enter(KEY) is None
    table.operations.refused(KEY)
    assert table.operations.enter(KEY) is None
    assert table.operations.snapshot() == ((), ())


def test_c02_a_stop_of_an_unknown_operation_leaves_a_tombstone(table: Table) -> None:
    table.operations.stop(StopRequest(job_id=JOB, op_generation=1, process_key="m#0"))
    assert table.operations.enter(KEY) is None


def test_c02_a_stop_while_claiming_makes_the_grant_void_and_wakes_the_thread(table: Table) -> None:
    work = table.operations.enter(KEY)
    assert work is not None
    table.operations.stop(StopRequest(job_id=JOB, op_generation=1, process_key="m#0"))
    assert not table.operations.granted(KEY, order(), table.clock())
    with pytest.raises(OperationStopped):
        work.check()


def test_c03_a_late_grant_starts_nothing_and_its_end_is_reported(table: Table) -> None:
    table.operations.enter(KEY)
    asked_at = table.clock()
    table.clock.now += KILL_TTL_S
    assert not table.operations.granted(KEY, order(), asked_at)
    (said,) = table.operations.snapshot()[0]
    assert said.op_state is OpState.ENDED


def test_c04_a_renewal_that_arrives_late_counts_from_when_it_was_asked_for(table: Table) -> None:
    table.started()
    asked_at = table.clock()
    table.clock.now += KILL_TTL_S - 1
    table.answer(Answer.KEEP, sent_at=asked_at)
    table.clock.now += 1
    table.operations.watch()
    assert table.stage() is Stage.ENDING


def test_after_a_pause_the_watchdog_comes_before_a_renewal_that_waits_in_line(table: Table) -> None:
    table.started()
    table.clock.now += KILL_TTL_S
    table.answer(Answer.KEEP)
    assert table.stage() is Stage.ENDING


def test_after_a_pause_the_watchdog_comes_before_a_load_that_succeeded(table: Table) -> None:
    work, group = table.started()
    table.clock.now += KILL_TTL_S
    assert not table.operations.become_ready(KEY, "m")
    assert group.ends == 1
    assert work.stopped


def test_c11_a_ready_process_is_not_ended_by_the_watchdog(table: Table) -> None:
    _, group = table.ready()
    table.clock.now += 1000 * KILL_TTL_S
    table.operations.watch()
    assert (table.stage(), group.ends) == (Stage.READY, 0)


def test_c11_ready_and_the_decision_to_kill_exclude_each_other_whoever_comes_first() -> None:
    for _ in range(50):
        table = Table()
        _, group = table.started()
        table.clock.now += KILL_TTL_S - 0.5
        barrier, outcome = threading.Barrier(2), list[bool]()

        def succeed(table: Table = table, barrier: threading.Barrier = barrier, out: list[bool] = outcome) -> None:
            barrier.wait(30)
            out.append(table.operations.become_ready(KEY, "m"))

        thread = threading.Thread(target=succeed)
        thread.start()
        barrier.wait(30)
        table.clock.now += 0.5
        table.operations.watch()
        thread.join(30)
        assert outcome == [group.ends == 0]
        assert table.stage() is (Stage.READY if outcome[0] else Stage.ENDING)


def started_anonymously(table: Table) -> tuple[tuple[str, int], Work, Group]:
    entered = table.operations.enter_anonymous("m#0", 10 * KILL_TTL_S)
    assert entered is not None
    key, work = entered
    group = Group()
    assert table.operations.attach(running(job_id=key[0], op_generation=key[1]), group)
    return key, work, group


def test_work_that_an_older_frontend_ordered_lives_without_renewals_and_ends_at_its_deadline(table: Table) -> None:
    key, work, group = started_anonymously(table)
    table.clock.now += 10 * KILL_TTL_S - 1
    table.operations.watch()
    assert (table.stage(key), group.ends) == (Stage.WORKING, 0)
    table.clock.now += 1
    table.operations.watch()
    assert (table.stage(key), group.ends > 0, work.stopped) == (Stage.ENDING, True, True)
    table.operations.thread_done(key, work)
    table.operations.process_gone("p1")
    assert table.stage(key) is Stage.GONE


def test_work_that_an_older_frontend_ordered_serves_and_is_in_no_report(table: Table) -> None:
    """A process in a report that no row names would be ended as an orphan."""
    key, _, group = started_anonymously(table)
    assert table.operations.snapshot() == ((), ())
    assert not table.operations.incomplete()
    assert table.operations.become_ready(key, "m")
    table.clock.now += 1000 * KILL_TTL_S
    table.operations.watch()
    assert (table.operations.snapshot(), group.ends) == (((), ()), 0)
    assert [process.process_instance for process in table.operations.serving()] == ["p1"]
    assert table.operations.keeps_process(key)


def test_a_closed_table_takes_no_anonymous_work_either(table: Table) -> None:
    table.operations.close()
    assert table.operations.enter_anonymous("m#0", 60.0) is None


def test_a_process_that_exited_is_never_ready(table: Table) -> None:
    _, group = table.started()
    group.exited = True
    assert not table.operations.become_ready(KEY, "m")


def test_the_start_gate_is_closed_for_a_doomed_operation(table: Table) -> None:
    table.working()
    table.answer(Answer.STOP)
    assert not table.operations.attach(running(), Group())
    assert table.operations.snapshot()[1] == ()


def test_c10_an_end_is_reported_only_after_thread_and_group_are_gone(table: Table) -> None:
    work, group = table.started()
    table.operations.fail(KEY, WHY)
    assert group.ends == 1
    assert table.operations.snapshot()[0][0].op_state is OpState.CLAIMED
    table.operations.thread_done(KEY, work)
    assert table.operations.snapshot()[0][0].op_state is OpState.CLAIMED
    table.operations.process_gone("p1")
    (said,) = table.operations.snapshot()[0]
    assert (said.op_state, said.error) == (OpState.ENDED, WHY)
    assert table.operations.wait_ended(KEY, "p1", 0)


def test_a_ready_process_that_ends_before_its_commit_is_reported_as_ended(table: Table) -> None:
    table.ready()
    table.operations.process_gone("p1")
    (said,) = table.operations.snapshot()[0]
    assert said.op_state is OpState.ENDED
    assert said.error is not None


def test_a_completed_operation_is_over_and_its_process_stays(table: Table) -> None:
    _, group = table.ready()
    table.answer(Answer.COMPLETE)
    operations, processes = table.operations.snapshot()
    assert (operations, [process.ready for process in processes], group.ends) == ((), [True], 0)
    assert not table.operations.incomplete()
    assert table.operations.keeps_process(KEY)


def test_a_process_that_no_row_wants_is_ended_by_its_instance(table: Table) -> None:
    _, group = table.ready()
    table.answer(Answer.COMPLETE)
    assert not table.operations.end_process("another", WHY)
    assert table.operations.end_process("p1", WHY)
    assert group.ends == 1
    assert table.operations.serving() == []
    assert not table.operations.snapshot()[1][0].ready


def test_the_decision_to_end_a_process_is_news_before_the_process_is_gone(table: Table) -> None:
    """Its row leaves the routing table with the next report, also if the process never ends."""
    _, group = table.ready()
    table.answer(Answer.COMPLETE)
    before = table.news
    assert table.operations.end_process("p1", WHY, 0.0)
    assert table.news > before
    assert group.graces == [0.0]
    assert [process.ready for process in table.operations.snapshot()[1]] == [False]


def test_a_process_that_was_not_completed_yet_is_ended_with_the_grace_it_was_given(table: Table) -> None:
    _, group = table.ready()
    assert table.operations.end_process("p1", WHY, 0.0)
    assert group.graces == [0.0]
    assert table.stage() is Stage.ENDING


def test_the_end_of_a_group_is_asked_for_again_until_it_is_gone(table: Table) -> None:
    _, group = table.started()
    table.operations.fail(KEY, WHY)
    table.operations.watch()
    table.operations.watch()
    assert group.ends == 3


def test_a_claim_without_a_row_may_be_asked_again_by_a_later_message(table: Table) -> None:
    first = table.operations.enter(KEY)
    assert first is not None
    table.operations.forget(KEY)
    second = table.operations.enter(KEY)
    assert second is not None
    table.operations.thread_done(KEY, first)  # the thread of the first message ends late
    assert table.operations.granted(KEY, order(), table.clock())
    table.operations.fail(KEY, WHY)
    assert second.stopped


def test_stages_and_phases_are_news_and_bytes_are_not(table: Table) -> None:
    table.working()
    before = table.news
    table.operations.moved(KEY, bytes_done=5, bytes_total=10)
    assert table.news == before
    table.operations.enter_phase(KEY, Phase.STAGING)
    assert table.news == before + 1
    operation = table.operations.operation(KEY)
    assert operation is not None
    assert (operation.bytes_done, operation.progress) == (0, 2)


def test_st_09_loading_keeps_the_counters_of_staging_so_that_progress_never_goes_back(table: Table) -> None:
    table.working()
    table.operations.enter_phase(KEY, Phase.STAGING)
    table.operations.moved(KEY, bytes_done=10, bytes_total=10, file_index=1, files_total=1)
    table.operations.enter_phase(KEY, Phase.LOADING)
    (said,) = table.operations.snapshot()[0]
    assert (said.phase, said.bytes_done, said.bytes_total, said.message) == (Phase.LOADING, 10, 10, None)


def test_start_waits_for_the_end_of_a_doomed_process_of_the_same_key(table: Table) -> None:
    _, group = table.ready()
    table.answer(Answer.COMPLETE)
    second = (JOB, 2)
    table.operations.enter(second)
    table.operations.granted(second, order(op_generation=2), table.clock())
    assert table.operations.start_move(second, 0) is StartMove.REFUSE
    table.operations.end_process("p1", WHY)
    assert table.operations.start_move(second, 0) is StartMove.WAIT
    waited: list[StartMove] = []
    thread = threading.Thread(target=lambda: waited.append(table.operations.start_move(second, 30)))
    thread.start()
    table.operations.process_gone("p1")
    thread.join(30)
    assert waited == [StartMove.START]
    assert group.ends == 1


def test_a_closed_table_takes_nothing_and_dooms_everything(table: Table) -> None:
    work, _ = table.started()
    table.operations.close()
    assert work.stopped
    assert table.operations.enter((JOB, 2)) is None
    assert not table.operations.wait_empty(0)
    table.operations.thread_done(KEY, work)
    table.operations.process_gone("p1")
    assert table.operations.wait_empty(0)
