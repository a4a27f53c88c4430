"""Stops, doubled and late messages, and the watchdog: what may end what."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from localai.bus.memory import MemoryBus
from localai.errors import WorkerRefused
from localai.jobs.operation_rules import (
    Answer,
    Cause,
    OperationReport,
    OpState,
    Order,
    StopAnswer,
    StopOutcome,
    StopRequest,
)
from tests.integration.worker_agent.conftest import MakeRig, Rig, faults, order
from tests.integration.worker_agent.fake_frontend import LIMIT_S
from tests.loopback import eventually
from worker_agent import bus
from worker_agent.hooks import Hooks
from worker_agent.processes import proc_table
from worker_agent.processes.rules import Stage

pytestmark = pytest.mark.integration

#: A kill TTL that a test can wait for, with windows that fit it.
SHORT: dict[str, Any] = {
    "job_lease_ttl_s": 0.5,
    "adopt_window_s": 0.25,
    "operation_report_interval_s": 0.2,
    "job_sweep_interval_s": 0.1,
    "worker_kill_ttl_s": 1.5,
}


def stop_of(wanted: Order, **changes: Any) -> StopRequest:
    request = StopRequest(
        job_id=wanted.job_id, op_generation=wanted.op_generation, process_key=f"{wanted.model}#{wanted.slot}"
    )
    return replace(request, **changes)


def completed(rig: Rig, wanted: Order) -> OperationReport:
    ready = rig.frontend.wait_report(rig.run(wanted), OpState.READY)
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    return ready


def stage(rig: Rig, wanted: Order) -> Stage | None:
    operation = rig.agent.operations.operation((wanted.job_id, wanted.op_generation))
    return operation and operation.stage


def test_sc_01_a_stop_answers_with_what_it_ended_and_a_repeat_finds_nothing(rig: Rig) -> None:
    wanted = rig.run(order(model_options=faults("load_delay:10m")))
    instance = rig.frontend.wait("a process", rig.frontend.instances).copy().pop()
    answer = rig.agent.stops.stop(stop_of(wanted))
    assert (answer.outcome, list(answer.terminated)) == (StopOutcome.TERMINATED, [instance])
    assert not proc_table.carriers(frozenset({instance}))
    assert rig.agent.stops.stop(stop_of(wanted)).outcome is StopOutcome.ALREADY_GONE


def test_sc_01_a_stop_that_names_anything_else_stops_nothing(rig: Rig) -> None:
    wanted = order()
    ready = completed(rig, wanted)
    for changes in ({"process_key": "m#1"}, {"address": "127.0.0.1:1"}, {"process_instance": "another"}):
        assert rig.agent.stops.stop(stop_of(wanted, **changes)).outcome is StopOutcome.NOT_MINE
    assert proc_table.carriers(frozenset({ready.process_instance or ""}))


def test_a_stop_without_the_instance_leaves_a_serving_process_alone(rig: Rig) -> None:
    wanted = order()
    ready = completed(rig, wanted)
    assert rig.agent.stops.stop(stop_of(wanted)).outcome is StopOutcome.FINISHED
    answer = rig.agent.stops.stop(stop_of(wanted, process_instance=ready.process_instance, address=ready.address))
    assert answer.outcome is StopOutcome.TERMINATED
    rig.frontend.wait_no_process(ready.process_instance or "")


def test_sc_04_a_stop_that_has_not_ended_the_group_is_an_error_and_may_be_asked_again(make_rig: MakeRig) -> None:
    rig = make_rig(stop_grace_s=2.0)
    link = MemoryBus()
    wanted = order(model_options=faults("ignore_sigterm:true"))
    completed(rig, wanted)
    node, ready = rig.frontend.node_id, rig.frontend.reports[-1].processes[0]
    impatient = type(rig.agent.stops)(rig.agent.operations, incarnation=1, bound_s=0.2, report_now=lambda: None)
    bus.serve_stops(link, node, impatient)
    request = stop_of(wanted, process_instance=ready.process_instance)
    try:
        with pytest.raises(WorkerRefused, match="not ended"):
            link.request(node, "model.stop", request.to_json(), LIMIT_S)
        rig.frontend.wait_no_process(ready.process_instance)
        answer = StopAnswer.from_json(link.request(node, "model.stop", request.to_json(), LIMIT_S))
        assert answer.outcome is StopOutcome.ALREADY_GONE
    finally:
        link.close()


def test_c02_a_stop_before_the_grant_leaves_a_tombstone_and_the_late_grant_starts_nothing(rig: Rig) -> None:
    asked, answer = threading.Event(), threading.Event()

    def hold(key: object) -> None:
        asked.set()
        assert answer.wait(LIMIT_S)

    rig.frontend.before_grant = hold
    wanted = rig.run(order())
    assert asked.wait(LIMIT_S)
    assert rig.agent.stops.stop(stop_of(wanted)).outcome is StopOutcome.ALREADY_GONE
    answer.set()
    assert rig.agent.runner.join(LIMIT_S)
    assert stage(rig, wanted) is Stage.GONE
    assert rig.agent.operations.snapshot() == ((), ())


def test_c01_a_refused_claim_leaves_a_tombstone_so_a_repeat_is_dropped(rig: Rig) -> None:
    wanted = order()
    rig.wake(wanted)
    assert rig.agent.runner.join(LIMIT_S)
    assert stage(rig, wanted) is Stage.GONE
    rig.run(wanted)
    assert rig.agent.runner.join(LIMIT_S)
    assert rig.frontend.claims == [(wanted.job_id, wanted.op_generation)]


@pytest.mark.parametrize("by", ["stop", "answer"])
def test_c03_a_stop_between_grant_and_start_leaves_nothing_to_start(make_rig: MakeRig, by: str) -> None:
    granted, go_on = threading.Event(), threading.Event()

    def after_grant(job_id: str) -> None:
        granted.set()
        assert go_on.wait(LIMIT_S)

    rig = make_rig(hooks=Hooks(granted=after_grant))
    wanted = rig.run(order())
    try:
        assert granted.wait(LIMIT_S)
        if by == "stop":
            threading.Thread(target=rig.agent.stops.stop, args=(stop_of(wanted),)).start()
        else:
            rig.frontend.answers[(wanted.job_id, wanted.op_generation)] = Answer.STOP
        eventually(lambda: stage(rig, wanted) is Stage.ENDING, "the decision to end")
    finally:
        go_on.set()
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None and ended.error.cause == Cause.CANCELLED
    assert ended.process_instance is None
    assert rig.agent.operations.snapshot()[1] == ()


def test_c03_a_grant_that_is_used_after_the_kill_ttl_starts_nothing(make_rig: MakeRig) -> None:
    held = threading.Event()
    rig = make_rig(hooks=Hooks(granted=lambda job_id: eventually(held.is_set)), **SHORT)
    rig.frontend.verdict = lambda report: Answer.STOP if report.op_state is OpState.ENDED else Answer.WAIT
    wanted = rig.run(order())
    try:
        eventually(lambda: stage(rig, wanted) is Stage.ENDING, "the watchdog's decision")
    finally:
        held.set()
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None and ended.error.cause == Cause.OPERATION_KILLED
    assert ended.process_instance is None


def test_tq_04_a_load_that_was_stopped_is_not_begun_again_by_a_second_delivery(rig: Rig) -> None:
    wanted = rig.run(order(model_options=faults("load_delay:10m")))
    rig.frontend.wait("a process", rig.frontend.instances)
    rig.frontend.answers[(wanted.job_id, wanted.op_generation)] = Answer.STOP
    rig.frontend.wait(
        "nothing is left", lambda: not rig.frontend.instances() and not rig.frontend.reports[-1].operations
    )
    for _ in range(5):
        rig.wake(wanted)
    assert rig.agent.runner.join(LIMIT_S)
    assert len(rig.frontend.claims) == 1
    assert rig.agent.operations.snapshot() == ((), ())


def test_tq_06_the_same_message_many_times_is_one_claim_and_one_process(rig: Rig) -> None:
    wanted = order()
    rig.frontend.orders[(wanted.job_id, wanted.op_generation)] = wanted
    for _ in range(5):
        rig.wake(wanted)
    rig.frontend.wait_report(wanted, OpState.READY)
    rig.frontend.wait("complete", lambda: not rig.agent.operations.incomplete())
    rig.wake(wanted)
    assert len(rig.frontend.claims) == 1
    assert len(rig.agent.operations.snapshot()[1]) == 1


def test_an_operation_that_nobody_renews_is_killed_and_says_so(make_rig: MakeRig) -> None:
    rig = make_rig(**SHORT)
    rig.frontend.verdict = lambda report: Answer.STOP if report.op_state is OpState.ENDED else Answer.WAIT
    wanted = rig.run(order(model_options=faults("load_delay:10m")))
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None
    assert ended.error.cause == Cause.OPERATION_KILLED
    assert "LOCALAI_WORKER_KILL_TTL" in ended.error.message
    assert not proc_table.carriers(frozenset({ended.process_instance or ""}))


def test_an_operation_past_its_deadline_is_killed_although_it_is_renewed(rig: Rig) -> None:
    wanted = rig.run(order(deadline_s=1.0, model_options=faults("load_delay:10m")))
    error = rig.frontend.wait_report(wanted, OpState.ENDED).error
    assert error is not None
    assert "deadline" in error.message and "1 s after it was claimed; LOCALAI_STAGING_MAX_DURATION" in error.message


def test_sc_02_a_ready_process_outlives_any_silence_of_the_frontends(make_rig: MakeRig) -> None:
    rig = make_rig(**SHORT)
    rig.frontend.verdict = lambda report: Answer.WAIT
    wanted = rig.run(order())
    ready = rig.frontend.wait_report(wanted, OpState.READY)
    rig.frontend.close()
    watched = threading.Event()
    assert not watched.wait(SHORT["worker_kill_ttl_s"] * 2)  # twice the window in which anything else is killed
    assert stage(rig, wanted) is Stage.READY
    assert proc_table.carriers(frozenset({ready.process_instance or ""}))


def test_c11_once_the_watchdog_has_decided_a_load_that_succeeds_is_never_ready(make_rig: MakeRig) -> None:
    loaded, go_on, deciding, kill = (threading.Event() for _ in range(4))

    def after_load(job_id: str) -> None:
        loaded.set()
        assert go_on.wait(LIMIT_S)

    def before_signal(instance: str) -> None:
        deciding.set()
        assert kill.wait(LIMIT_S)

    rig = make_rig(hooks=Hooks(loaded=after_load, ending=before_signal), **SHORT)
    rig.frontend.verdict = lambda report: Answer.STOP if report.op_state is OpState.ENDED else Answer.WAIT
    wanted = rig.run(order())
    try:
        assert loaded.wait(LIMIT_S)
        assert deciding.wait(LIMIT_S)  # the kill is decided, and nothing has been signalled yet
        go_on.set()
        eventually(lambda: stage(rig, wanted) is Stage.ENDING)
        assert rig.agent.operations.serving() == []
    finally:
        go_on.set()
        kill.set()
    ended = rig.frontend.wait_report(wanted, OpState.ENDED)
    assert ended.error is not None
    assert ended.error.cause == Cause.OPERATION_KILLED
    states = {o.op_state for report in rig.frontend.reports for o in report.operations}
    assert OpState.READY not in states
