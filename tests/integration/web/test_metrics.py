"""A scrape of real web processes: one answer for all of them, and what rows and queue say at that moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from localai.db.unit_of_work import units_of
from localai.gauges.store import Gauges
from localai.ids import JobId, new_id
from tasks.broker import make_broker
from tasks.depths import queue_depths
from tasks.enqueue import DramatiqWakeups
from tests.embedded_servers import Servers
from tests.fakes.inference import says
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.integration.web.test_processes import workers_of
from tests.loopback import eventually

pytestmark = pytest.mark.integration

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(web: WebProcess) -> Samples:
    response = web.client.get("/metrics")
    assert response.status_code == 200, response.text
    families = text_string_to_metric_families(response.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def at(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


BODY = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def _alone(web: WebProcess) -> httpx2.Client:
    """A client with a connection of its own: the kernel may give it to either process."""
    return httpx2.Client(base_url=web.url, headers=web.client.headers, timeout=30)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    """A process that takes no connection meanwhile: the other one does."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _model(bench: Bench, web: WebProcess, name: str) -> None:
    """A config that both processes know: many connections in a row would reach one that does not."""
    bench.model(name)

    def known() -> bool:
        for _ in range(12):
            with _alone(web) as client:
                if name not in [model["id"] for model in client.get("/v1/models").json()["data"]]:
                    return False
        return True

    eventually(known, f"model {name} known to both processes")


@pytest.fixture(scope="module")
def pair(bench: Bench) -> WebProcess:
    """One frontend of two web processes."""
    return bench.web(web_workers=2)


@pytest.fixture(scope="module")
def loaded(bench: Bench, pair: WebProcess) -> Node:
    node = bench.node(pair)
    _model(bench, pair, "m")
    waiting = bench.in_background(lambda: pair.chat("m"))
    bench.load("m", bench.backend(says("a", "b")))
    assert waiting.result().status_code == 200
    return node


@pytest.fixture
def gauges(bench: Bench, servers: Servers) -> Iterator[Gauges]:
    """What a web process reads, without the pause between readings."""
    broker = make_broker(servers.broker_url)
    clock = iter(range(0, 10_000, 10))
    yield Gauges(units_of(bench.engine), lambda nodes: queue_depths(broker, nodes), clock=lambda: float(next(clock)))
    broker.close()


def read(gauges: Gauges) -> Samples:
    return {(s.name, frozenset(s.labels.items())): s.value for family in gauges.read() for s in family.samples}


def test_every_answer_is_counted_whichever_process_gave_it_and_no_total_falls(pair: WebProcess, loaded: Node) -> None:
    before = at(scrape(pair), "localai_requests_total", model="m", node=loaded.name, outcome="ok")
    shown = before
    workers = sorted(workers_of(pair))
    assert len(workers) == 2
    for number in range(20):
        with _stopped(workers[number % 2]), _alone(pair) as client:
            assert client.post("/v1/chat/completions", json=BODY).status_code == 200
        total = at(scrape(pair), "localai_requests_total", model="m", node=loaded.name, outcome="ok")
        assert total >= shown
        shown = total

    def all_counted() -> bool:
        return at(scrape(pair), "localai_requests_total", model="m", node=loaded.name, outcome="ok") == before + 20

    eventually(all_counted, "every answer in the total, once each process has written its file")
    files = list((pair.settings.state_dir / "metrics").rglob("*.json"))  # type: ignore[operator]
    assert len(files) == 2


def test_a_warm_request_that_is_counted_makes_no_statement(pair: WebProcess, loaded: Node) -> None:
    assert pair.statements_of(pair.chat("m")) == 0


def test_rows_are_read_once_for_scrapes_that_come_close_together(pair: WebProcess, loaded: Node) -> None:
    statements = [pair.statements_of(pair.client.get("/metrics")) for _ in range(8)]
    assert sum(count > 0 for count in statements) <= 4, "each of two processes, and once more where five seconds pass"


def test_a_snapshot_that_stays_open_shows_as_an_age_that_grows(bench: Bench, loaded: Node, gauges: Gauges) -> None:
    assert at(read(gauges), "localai_control_plane_oldest_xmin_age") < 50
    with bench.engine.connect() as idle:
        idle.execution_options(isolation_level="REPEATABLE READ")
        idle.execute(text("SELECT 1"))
        for _ in range(60):
            with bench.engine.begin() as other:
                other.execute(text("SELECT pg_current_xact_id()"))
        assert at(read(gauges), "localai_control_plane_oldest_xmin_age") >= 60
        idle.rollback()


def test_messages_that_nobody_takes_are_a_depth(servers: Servers, loaded: Node, gauges: Gauges) -> None:
    wakeups = DramatiqWakeups(make_broker(servers.broker_url))
    for _ in range(3):
        wakeups.send_order(loaded.id, new_id(), 1)
    assert at(read(gauges), "localai_queue_depth", queue=loaded.name) == 3
    wakeups.forget_node(loaded.id)
    assert at(read(gauges), "localai_queue_depth", queue=loaded.name) == 0
    assert at(read(gauges), "localai_source_up", source="queue") == 1


def test_a_queue_that_does_not_answer_is_left_out_and_named(bench: Bench, loaded: Node) -> None:
    broker = make_broker("redis://127.0.0.1:9/0")
    samples = read(Gauges(units_of(bench.engine), lambda nodes: queue_depths(broker, nodes)))
    assert at(samples, "localai_source_up", source="queue") == 0
    assert at(samples, "localai_source_up", source="database") == 1
    assert not [name for name, _ in samples if name == "localai_queue_depth"]


def test_a_load_shows_while_it_lives_and_a_stop_until_it_is_confirmed(
    bench: Bench, pair: WebProcess, loaded: Node, gauges: Gauges
) -> None:
    _model(bench, pair, "cold")
    connection = pair.open_chat("cold")
    try:
        job_id = bench.place("cold")
        samples = read(gauges)
        assert at(samples, "localai_load_jobs", state="running", phase="pending") == 1
        eventually(lambda: at(scrape(pair), "localai_waiters", model="cold") == 1, "one request waits for the model")
    finally:
        connection.close()
    assert bench.rows.cancels.cancel(JobId(job_id), "test")
    assert at(read(gauges), "localai_unconfirmed_stops", node=loaded.name) == 1
    loaded.report()
    eventually(lambda: at(read(gauges), "localai_unconfirmed_stops", node=loaded.name) == 0, "the stop is confirmed")
