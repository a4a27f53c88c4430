"""A worker of an older version registers over HTTP without a word about operations, and neither claims nor reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from localai.bus.delivery import ThreadDelivery
from localai.bus.nats import NatsBus
from localai.bus.subjects import MODEL_STOP
from localai.db.unit_of_work import UnitOfWork
from localai.ids import NodeId, new_id
from localai.jobs.job import Job, StopState
from tests import plain_http
from tests.embedded_servers import Servers
from tests.integration.web.bench import TOKEN, Bench, WebProcess
from tests.loopback import eventually

pytestmark = pytest.mark.integration
WINDOW_S = 45 * 60


@pytest.fixture
def legacy_node(bench: Bench, web: WebProcess) -> Iterator[NodeId]:
    """The only node there is."""
    figures = {"total_ram": 2**34, "available_ram": 2**34}
    body = {"name": f"old-{new_id()}", "address": "127.0.0.1:50051", "token": TOKEN, **figures}
    answer = plain_http.post(f"{web.url}/api/node/register", json=body, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 201, answer.text
    assert {"id", "incarnation", "node_token"} <= answer.json().keys(), "it is answered as every worker is"
    node_id = NodeId(answer.json()["id"])
    yield node_id
    bench.rows.nodes.deregister(node_id, None)


@pytest.fixture
def worker_bus(servers: Servers) -> Iterator[NatsBus]:
    """The bus as a worker sees it: a frontend's user cannot listen in a node's place."""
    bus = NatsBus(servers.worker_nats_url, name="worker", delivery=ThreadDelivery())
    yield bus
    bus.close()


def _sent(bench: Bench, web: WebProcess, model: str) -> Job:
    """A load whose order was sent to the legacy node."""
    bench.model(model)
    assert web.client.post("/backend/load", json={"model": model}).status_code == 202
    live = bench.live(model)
    bench.ownership.stepper.step(live.id, live.generation)
    job = bench.rows.jobs.get(live.id)
    assert job is not None and job.op_generation is not None and job.legacy
    return job


def _cancel(web: WebProcess, job: Job) -> httpx2.Response:
    return web.client.post(f"/api/models/{job.subject}/load-cancel", json={"job_id": job.id})


def _row(bench: Bench, job: Job) -> Job:
    found = bench.rows.jobs.get(job.id)
    assert found is not None
    return found


def _let_pass(bench: Bench, job: Job, seconds: float) -> None:
    with UnitOfWork(bench.engine) as uow:
        uow.execute(
            "UPDATE jobs SET stop_deadline = stop_deadline - make_interval(secs => %(s)s), "
            "hold_until = hold_until - make_interval(secs => %(s)s) WHERE id = %(id)s",
            {"s": seconds, "id": job.id},
        )


def test_a_cancelled_load_of_a_legacy_node_holds_45_minutes_and_never_longer(
    bench: Bench, web: WebProcess, legacy_node: NodeId, worker_bus: NatsBus
) -> None:
    asked: list[Any] = []

    def stop(payload: Any) -> Any:
        asked.append(payload)
        return {}

    worker_bus.serve(legacy_node, MODEL_STOP, stop)
    job = _sent(bench, web, "old-cancelled")
    answer = _cancel(web, job)
    assert (answer.status_code, answer.json()["state"]) == (202, "stopping")
    assert WINDOW_S - 60 < answer.json()["retry_after"] <= WINDOW_S
    bench.ownership.stops.stop_operation(_row(bench, job))
    due = [row.id for row in bench.rows.sweeps.due_stops(100)]
    assert job.id not in due and asked == [], "its address is not known: no stop is sent"
    held = web.chat("old-cancelled")
    assert held.status_code == 503 and int(held.headers["Retry-After"]) > WINDOW_S - 60

    _let_pass(bench, job, WINDOW_S - 30)
    assert bench.rows.sweeps.give_up_stops(100) == []
    _let_pass(bench, job, 31)
    assert [row.id for row in bench.rows.sweeps.give_up_stops(100)] == [job.id]
    assert _row(bench, job).stop_state == StopState.NONE
    again = _sent(bench, web, "old-cancelled")
    assert (again.slot, again.id != job.id) == (job.slot, True), "slot and memory are free again"


def test_a_legacy_node_is_stopped_by_the_exact_address_and_never_by_the_name_of_the_model(
    bench: Bench, web: WebProcess, legacy_node: NodeId, worker_bus: NatsBus
) -> None:
    asked: list[Any] = []
    job = _sent(bench, web, "old-stopped")
    with UnitOfWork(bench.engine) as uow:
        uow.execute("UPDATE jobs SET address = '127.0.0.1:50077' WHERE id = %(id)s", {"id": job.id})

    def stop(payload: Any) -> Any:
        asked.append(payload)
        return {"success": True}  # the words of an older version prove nothing

    worker_bus.serve(legacy_node, MODEL_STOP, stop)
    assert _cancel(web, job).status_code == 202
    (due,) = [row for row in bench.rows.sweeps.due_stops(100) if row.id == job.id]

    def sent() -> bool:
        bench.ownership.stops.stop_operation(due)
        return bool(asked)

    eventually(sent, "the stop at the node")
    assert asked[0]["address"] == "127.0.0.1:50077"
    assert "old-stopped" not in str(asked[0])
    assert _row(bench, job).stop_state == StopState.PENDING
