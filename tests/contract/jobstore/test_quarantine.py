"""What both stores do about failures in a row: count them, keep the model off the node, refuse, forget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from localai.ids import NodeId, OwnerId, ProcessInstance, new_id
from localai.jobs.event_rules import Fail
from localai.jobs.job import Job, State
from localai.jobs.operation_rules import Cause, OperationReport, OpState, Phase, Report
from localai.jobs.ports import Intake
from localai.loads.ports import Quarantined, Reservation
from localai.placement.filters import Demand, Limits, NodeOffer
from localai.placement.rules import NoRoom, Placement, place
from tests.contract.jobstore.stores import QUARANTINE_AFTER, Stores

pytestmark = pytest.mark.contract
ME = OwnerId("control-me")


def asked(stores: Stores, revision: str = "r1") -> Job:
    stores.loads.revise("m", revision)
    answer = stores.loads.request("m", revision)
    assert not isinstance(answer, Quarantined) and answer[0] is Intake.CREATED, answer
    return answer[1]


def choose(offers: Sequence[NodeOffer]) -> Placement | NoRoom:
    return place(Demand(model="m", size_bytes=1, stages=False), offers, Limits(stale_after_s=300.0))


def placed(stores: Stores, revision: str = "r1", on: NodeId | None = None) -> Job:
    """A load that was sent, to the given node where one is named."""
    job = asked(stores, revision)
    taken = stores.jobs.take(job.id, job.generation, ME)
    assert taken is not None

    def there(offers: Sequence[NodeOffer]) -> Placement | NoRoom:
        return Placement(node_id=on, node_name="n") if on is not None else choose(offers)

    sent = stores.loads.place(taken, ME, there, Reservation(backend="fault", reserved_bytes=1, order={}))
    assert isinstance(sent, Job), sent
    return sent


def fail(stores: Stores, job: Job, cause: str = "start_failed") -> None:
    """The attempt ends, and its hold passes."""
    event = Fail(generation=job.generation, owner=ME, cause=cause, error=f"it says {cause}", ended=True)
    assert stores.jobs.fail(job.id, event) is not None
    stores.let_pass(16)


def fails(stores: Stores, times: int, cause: str = "start_failed", **where: Any) -> None:
    for _ in range(times):
        fail(stores, placed(stores, **where), cause)


def succeed(stores: Stores, incarnation: int, job: Job) -> None:
    assert job.node_id is not None and job.op_generation is not None
    assert stores.operations.claim(job.node_id, incarnation, job.id, job.op_generation, 0).granted
    ready = OperationReport(
        job_id=job.id,
        op_generation=job.op_generation,
        op_state=OpState.READY,
        phase=Phase.LOADING,
        process_instance=ProcessInstance(new_id()),
        address="127.0.0.1:1",
        identity="m",
    )
    stores.operations.report(job.node_id, Report(incarnation=incarnation, seq=1, operations=(ready,)))
    done = stores.loads.finish(stores.job(job.id), ME)
    assert isinstance(done, Job) and done.state is State.SUCCEEDED


def test_failures_in_a_row_with_one_cause_end_the_attempts_and_say_so(stores: Stores) -> None:
    node, _ = stores.register("n1")
    fails(stores, QUARANTINE_AFTER - 1)
    last = placed(stores)
    fail(stores, last)
    refused = stores.loads.request("m", "r1")
    assert isinstance(refused, Quarantined)
    (streak,) = refused.streaks
    assert (streak.node_id, streak.node_name, streak.cause, streak.failures) == (node, "n1", "start_failed", 3)
    assert (streak.error, streak.job_id) == ("it says start_failed", last.id)
    assert streak.since < streak.last_at
    assert len(stores.job_rows()) == QUARANTINE_AFTER, "no attempt is made"


def test_another_cause_begins_a_new_row_of_failures(stores: Stores) -> None:
    stores.register("n1")
    fails(stores, QUARANTINE_AFTER - 1)
    fails(stores, 1, "load_refused")
    fails(stores, QUARANTINE_AFTER - 1)
    assert not isinstance(stores.loads.request("m", "r1"), Quarantined)


@pytest.mark.parametrize("cause", [Cause.OWNER_LOST, Cause.WORKER_RESTARTED, Cause.REVISION_CHANGED, Cause.BUDGET_OVER])
def test_what_befell_an_attempt_from_outside_neither_counts_nor_breaks_the_row(stores: Stores, cause: Cause) -> None:
    stores.register("n1")
    fails(stores, QUARANTINE_AFTER - 1)
    fails(stores, QUARANTINE_AFTER, cause)
    assert not isinstance(stores.loads.request("m", "r1"), Quarantined)


def test_a_cancel_is_no_failure(stores: Stores) -> None:
    stores.register("n1")
    for _ in range(QUARANTINE_AFTER):
        stores.cancels.cancel(placed(stores).id, "request")
        stores.let_pass(16)
    assert stores.streaks() == []


def test_another_node_gets_the_load_until_it_has_failed_there_as_often(stores: Stores) -> None:
    first, _ = stores.register("n1")
    second, _ = stores.register("n2")
    fails(stores, QUARANTINE_AFTER, on=first)
    offers: list[NodeOffer] = []
    job = placed(stores)
    assert job.node_id == second
    fail(stores, job)
    again = asked(stores)
    taken = stores.jobs.take(again.id, again.generation, ME)
    assert taken is not None

    def look(seen: Sequence[NodeOffer]) -> Placement | NoRoom:
        offers.extend(seen)
        return choose(())

    stores.loads.place(taken, ME, look, Reservation(backend="fault", reserved_bytes=1, order={}))
    held = {offer.name: offer.quarantine.failures if offer.quarantine else 0 for offer in offers}
    assert held == {"n1": QUARANTINE_AFTER, "n2": 0}
    stores.cancels.cancel(again.id, "request")
    stores.let_pass(16)
    fails(stores, QUARANTINE_AFTER - 1, on=second)
    refused = stores.loads.request("m", "r1")
    assert isinstance(refused, Quarantined) and [streak.node_name for streak in refused.streaks] == ["n1", "n2"]


def test_after_a_node_did_not_know_the_backend_another_one_is_asked(stores: Stores) -> None:
    first, _ = stores.register("n1")
    second, _ = stores.register("n2")
    fails(stores, 1, Cause.BACKEND_UNKNOWN, on=first)
    job = placed(stores)
    assert job.node_id == second
    fail(stores, job, Cause.BACKEND_UNKNOWN)
    assert placed(stores).node_id == first, "a node that did not know it is better than none"


def test_another_revision_is_another_try_also_when_the_first_one_comes_back(stores: Stores) -> None:
    stores.register("n1")
    fails(stores, QUARANTINE_AFTER)
    assert isinstance(stores.loads.request("m", "r1"), Quarantined)
    fails(stores, 1, revision="r2")
    assert asked(stores, "r1").live


def test_a_success_there_forgets_the_failures(stores: Stores) -> None:
    _, incarnation = stores.register("n1")
    fails(stores, QUARANTINE_AFTER - 1)
    succeed(stores, incarnation, placed(stores))
    assert stores.streaks() == []
