"""The load in the stream of a real web process: each report of the agent is a comment, and nobody waits for nothing."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from localai.ids import JobId
from localai.jobs.operation_rules import OperationReport, OpState, Phase
from tests.fakes.inference import Silent, says
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.integration.web.test_metrics import at, scrape
from tests.loopback import LIMIT_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ASKED = {"X-LocalAI-Loading": "stream"}


class Heard:
    """A streamed request in the background, and what its client reads, line by line."""

    def __init__(self, bench: Bench, web: WebProcess, model: str) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._request = (web, model)
        self.ended = bench.in_background(self._read)

    def _read(self) -> int:
        web, model = self._request
        with _streamed(web, model) as response:
            for line in response.iter_lines():
                if line:
                    self._lines.put(line)
            return int(response.status_code)

    def line(self) -> str:
        return self._lines.get(timeout=LIMIT_S)

    def until(self, state: str, progress: float) -> dict[str, Any]:
        """The first comment of this state and percent; none before it may be further."""
        while True:
            text = self.line()
            if text == ": keep-alive":
                continue  # a busy machine: the stream began before anything was known
            assert text.startswith(": loading "), text
            found: dict[str, Any] = json.loads(text.removeprefix(": loading "))
            if (found["state"], found["progress"]) == (state, progress):
                return found

    def rest(self) -> list[str]:
        assert self.ended.result(LIMIT_S) == 200
        lines = []
        while not self._lines.empty():
            lines.append(self._lines.get())
        return [line for line in lines if not line.startswith(":")]


@contextmanager
def _streamed(web: WebProcess, model: str) -> Iterator[httpx2.Response]:
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": True}
    headers = {**web.client.headers, **ASKED}
    with (
        httpx2.Client(base_url=web.url, timeout=LIMIT_S) as client,
        client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as response,
    ):
        yield response


@pytest.fixture(scope="module")
def other(bench: Bench, web: WebProcess) -> WebProcess:
    """A second frontend, whose other requests wait for half a second only."""
    return bench.web(model_load_wait_s=0.5)


def _report(bench: Bench, job_id: str, phase: Phase, done: int, total: int) -> None:
    job = bench.rows.jobs.get(JobId(job_id))
    assert job is not None and job.op_generation is not None
    bench.node_of(job_id).report(
        OperationReport(
            job_id=job.id,
            op_generation=job.op_generation,
            op_state=OpState.CLAIMED,
            phase=phase,
            bytes_done=done,
            bytes_total=total,
            file_index=1,
            files_total=1,
            progress=done,
        )
    )


def test_every_report_of_the_agent_is_a_comment_on_every_frontend(
    bench: Bench, web: WebProcess, other: WebProcess, node: Node
) -> None:
    bench.model("told")
    clients = [Heard(bench, web, "told"), Heard(bench, other, "told")]
    job_id = bench.place("told")
    for phase, done, total in ((Phase.STAGING, 1, 4), (Phase.STAGING, 3, 4), (Phase.LOADING, 0, 0)):
        _report(bench, job_id, phase, done, total)
        percent = 100.0 * done / total if total else 0.0
        seen = [client.until(phase.value, percent) for client in clients]
        assert [found["job_id"] for found in seen] == [job_id] * 2
        assert [found["node"] for found in seen] == [bench.node_of(job_id).name] * 2
    bench.finish(job_id, bench.backend(says("at ", "last")))
    for client in clients:
        lines = client.rest()
        assert lines[-1] == "data: [DONE]"
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "at last"
    assert len(web.client.get("/api/jobs?kind=model.load&subject=told").json()["jobs"]) == 1


def test_without_the_bus_a_poll_brings_the_comments(bench: Bench, node: Node) -> None:
    deaf = bench.web(nats_url="nats://127.0.0.1:9", waiter_poll_interval_s=0.2)
    bench.model("unheard")
    client = Heard(bench, deaf, "unheard")
    job_id = bench.place("unheard")
    _report(bench, job_id, Phase.STAGING, 1, 2)
    client.until("staging", 50.0)
    bench.finish(job_id, bench.backend(says("found")))
    assert "found" in "".join(client.rest())
    deaf.process.kill()
    deaf.process.wait(LIMIT_S)


def test_i6_every_waiter_of_an_attempt_reads_its_cause_told_or_not_and_on_every_frontend(
    bench: Bench, web: WebProcess, other: WebProcess, node: Node
) -> None:
    bench.model("doomed")
    told = [Heard(bench, web, "doomed"), Heard(bench, other, "doomed")]
    silent = [bench.in_background(lambda: web.chat("doomed")) for _ in range(5)]
    job_id = bench.place("doomed")
    for client in told:
        client.until("pending", 0.0)
    eventually(lambda: at(scrape(web), "localai_waiters", model="doomed") == 6, "all requests wait")
    job = bench.rows.jobs.get(JobId(job_id))
    assert job is not None
    bench.ownership.owner.fail(job, "file_digest_mismatch", "the weights are cursed", ended=True)
    refused = [wait.result(LIMIT_S) for wait in silent]
    assert {response.status_code for response in refused} == {503}
    assert all(1 <= int(response.headers["Retry-After"]) <= 15 for response in refused), "the seconds of the hold"
    ends = [client.rest() for client in told]
    assert [end[-1] for end in ends] == ["data: [DONE]"] * 2
    bodies = [json.loads(end[0].removeprefix("data: ")) for end in ends] + [response.json() for response in refused]
    assert {body["error"]["code"] for body in bodies} == {"model_load_failed"}
    assert {body["error"]["message"] for body in bodies} == {"the load of model doomed failed: the weights are cursed"}
    assert {body["loading"]["job_id"] for body in bodies} == {job_id}


@pytest.mark.parametrize("asked", [True, False])
def test_lj_02_a_client_that_leaves_ends_its_wait_within_two_seconds_and_nothing_else(
    bench: Bench, web: WebProcess, node: Node, asked: bool
) -> None:
    model = bench.model(f"left-{asked}")
    connection = web.open_chat(model, headers=ASKED if asked else {}, stream=True)
    job_id = bench.place(model)
    eventually(lambda: at(scrape(web), "localai_waiters", model=model) == 1, "the request waits")
    received = b""
    while asked and b": loading {" not in received:
        received += connection.recv(65536)
    connection.close()
    eventually(lambda: at(scrape(web), "localai_waiters", model=model) == 0, "the wait is over", limit_s=2)
    bench.finish(job_id, bench.backend(says("still here")))
    assert web.chat(model).status_code == 200
    samples = scrape(web)
    assert at(samples, "localai_requests_total", model=model, node="", outcome="cancelled") == 1
    assert at(samples, "localai_requests_total", model=model, node=bench.node_of(job_id).name, outcome="ok") == 1
    (job,) = web.client.get(f"/api/jobs?kind=model.load&subject={model}").json()["jobs"]
    assert job["attempts"] == 1


def test_pm_06_a_client_that_leaves_while_the_model_thinks_cancels_its_call(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("thinks")
    silent = Silent()
    wait = bench.in_background(lambda: bench.load("thinks", bench.backend(silent)))
    connection = web.open_chat("thinks", headers=ASKED, stream=True)
    wait.result(LIMIT_S)
    assert silent.started.wait(LIMIT_S)
    received = b""
    while b": keep-alive" not in received:
        received += connection.recv(65536)
    connection.close()
    assert silent.cancelled.wait(5), "the model goes on for nobody"


def test_a_warm_stream_with_the_header_makes_no_statement(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("warm")
    wait = bench.in_background(lambda: web.chat("warm"))
    bench.load("warm", bench.backend(says("a")))
    assert wait.result(LIMIT_S).status_code == 200
    with _streamed(web, "warm") as response:
        text = response.read().decode()
    assert text.startswith("data: ") and text.endswith("data: [DONE]\n\n")
    assert web.statements_of(response) == 0
