"""Vectors, orders and raw completions through a real web process: cold, warm, side by side, and left by their client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from protos import backend_pb2
from tests.fakes.inference import Asked, Silent, embeds, ranks, says
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.loopback import LIMIT_S
from web.openai.embeddings import WIDTH

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def length(asked: Asked) -> list[float]:
    return [float(len(asked.options.Embeddings))]


class Together:
    """A script whose calls answer when so many are under way at once."""

    def __init__(self, parties: int) -> None:
        self._barrier = threading.Barrier(parties)

    def __call__(self, asked: Asked) -> Iterator[backend_pb2.EmbeddingResult]:
        self._barrier.wait(LIMIT_S)
        yield from embeds(length)(asked)


def ask(web: WebProcess, model: str, given: Any) -> Any:
    return web.client.post("/v1/embeddings", json={"model": model, "input": given})


def test_cold_inputs_wait_for_one_load_and_the_next_request_makes_no_statement(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("cold-encoder")
    wait = bench.in_background(lambda: ask(web, "cold-encoder", ["a", "bb", "ccc"]))
    bench.load("cold-encoder", bench.backend(embeds(length)))
    response = wait.result(LIMIT_S)
    assert response.status_code == 200, response.text
    assert [one["embedding"] for one in response.json()["data"]] == [[1.0], [2.0], [3.0]]
    jobs = web.client.get("/api/jobs?kind=model.load&subject=cold-encoder").json()["jobs"]
    assert len(jobs) == 1
    assert web.statements_of(ask(web, "cold-encoder", "a")) == 0


def test_inputs_of_one_request_are_under_way_side_by_side(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("wide")
    wait = bench.in_background(lambda: ask(web, "wide", ["x" * n for n in range(1, 2 * WIDTH + 1)]))
    bench.load("wide", bench.backend(Together(WIDTH)))
    response = wait.result(LIMIT_S)
    assert [one["embedding"] for one in response.json()["data"]] == [[float(n)] for n in range(1, 2 * WIDTH + 1)]


def test_pm_06_a_client_that_leaves_cancels_every_call_of_its_request(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("left-encoder")
    silent = Silent()
    scripts: list[Silent] = []

    def each(asked: Asked) -> Any:
        scripts.append(Silent())
        silent.started.set()
        return scripts[-1](asked)

    backend = bench.backend(each)
    wait = bench.in_background(lambda: bench.load("left-encoder", backend))
    connection = web.open_post("/v1/embeddings", {"model": "left-encoder", "input": ["a"] * 100})
    wait.result(LIMIT_S)
    assert silent.started.wait(LIMIT_S)
    connection.close()
    for script in scripts:
        assert script.cancelled.wait(LIMIT_S), "the model goes on for nobody"
    assert len(backend.asked) <= WIDTH
    backend.script = embeds(length)
    assert ask(web, "left-encoder", ["a", "b"]).status_code == 200


def test_documents_are_ordered(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("ranker")
    body = {"model": "ranker", "query": "q", "documents": ["a", "b", "c"], "top_n": 2}
    wait = bench.in_background(lambda: web.client.post("/v1/rerank", json=body))
    bench.load("ranker", bench.backend(ranks(0.25, 0.5, 0.75)))
    assert [found["index"] for found in wait.result(LIMIT_S).json()["results"]] == [2, 1]
    assert web.statements_of(web.client.post("/v1/rerank", json=body)) == 0


def test_a_raw_prompt_is_completed_whole_and_streamed(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("writer")
    body = {"model": "writer", "prompt": ["Once", "Twice"]}
    wait = bench.in_background(lambda: web.client.post("/v1/completions", json=body))
    bench.load("writer", bench.backend(says(" upon", " a time")))
    assert [choice["text"] for choice in wait.result(LIMIT_S).json()["choices"]] == [" upon a time"] * 2
    response = web.client.post("/v1/completions", json={**body, "stream": True})
    assert web.statements_of(response) == 0
    events = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    texts = [(chunk["choices"][0]["index"], chunk["choices"][0]["text"]) for chunk in chunks]
    assert texts == [(0, " upon"), (0, " a time"), (0, ""), (1, " upon"), (1, " a time"), (1, "")]
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2, 2, 3, 4, 4]


def test_sc_07_a_client_that_leaves_a_stream_between_prompts_cancels_it(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("left-writer")
    silent = Silent("second")

    def script(asked: Asked) -> Any:
        return silent(asked) if asked.options.Prompt == "b" else says("first")(asked)

    backend = bench.backend(script)
    wait = bench.in_background(lambda: bench.load("left-writer", backend))
    connection = web.open_post("/v1/completions", {"model": "left-writer", "prompt": ["a", "b", "c"], "stream": True})
    wait.result(LIMIT_S)
    assert silent.started.wait(LIMIT_S)
    received = b""
    while b"second" not in received:
        received += connection.recv(65536)
    connection.close()
    assert silent.cancelled.wait(LIMIT_S), "the model goes on for nobody"
    assert [options.Prompt for options in backend.asked] == ["a", "b"]
