"""Which events on the connection of a request end its work: a close does, the end of input and early bytes do not."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fakes.inference import Asked, Silent, embeds, ranks, says
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.loopback import LIMIT_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CLIENTS = 20
#: The watch looks at a connection 50 ms after the start of a call and then several times a second: long enough for it
#: to take the end of input for a close.
LOOKS_S = 2.0

SECOND_REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(autouse=True)
def heartbeat(node: Node) -> None:
    """Tests that wait for nothing to happen take longer than a node may be silent."""
    node.post("heartbeat", {"incarnation": node.incarnation, "available_ram": 2**34})


class Each:
    """A script with a script of its own for every call."""

    def __init__(self, *first: str) -> None:
        self._first = first
        self.calls: list[Silent] = []

    def __call__(self, asked: Asked) -> Any:
        self.calls.append(Silent(*self._first))
        return self.calls[-1](asked)

    def started(self) -> list[Silent]:
        return [call for call in self.calls if call.started.is_set()]


@contextmanager
def reading(connection: socket.socket) -> Iterator[http.client.HTTPResponse]:
    with connection, http.client.HTTPResponse(connection) as response:
        response.begin()
        yield response


def data_of(body: bytes) -> list[str]:
    return [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]


@pytest.mark.parametrize("early", [b"\r\n", SECOND_REQUEST], ids=["a line's end", "a second request"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_close_after_early_bytes_cancels_the_call_of_each_of_20_clients(
    bench: Bench, web: WebProcess, node: Node, early: bytes, stream: bool
) -> None:
    model, silent = bench.model(f"early-{len(early)}-{stream}"), Each()
    connections = [web.open_chat(model, stream=stream)]
    bench.load(model, bench.backend(silent))
    connections += [web.open_chat(model, stream=stream) for _ in range(CLIENTS - 1)]
    eventually(lambda: len(silent.started()) == CLIENTS, "every call has begun")
    for connection in connections:
        connection.sendall(early)
    assert not silent.calls[0].cancelled.wait(LOOKS_S), "early bytes are no close"
    for connection in connections:
        connection.close()
    eventually(lambda: all(call.cancelled.is_set() for call in silent.calls), "every call is cancelled", limit_s=5)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_ended_its_input_reads_the_whole_answer(
    bench: Bench, web: WebProcess, node: Node, stream: bool
) -> None:
    model, slow = bench.model(f"half-closed-{stream}"), Silent("first ")
    connection = web.open_chat(model, stream=stream)
    connection.shutdown(socket.SHUT_WR)
    job_id = bench.place(model)
    assert not slow.started.wait(LOOKS_S), "the model is not there, and the client waits"
    bench.finish(job_id, bench.backend(slow))
    assert slow.started.wait(LIMIT_S)
    assert not slow.cancelled.wait(LOOKS_S), "the client still reads"
    slow.go.set()
    with reading(connection) as response:
        assert response.status == 200
        body = response.read()
    if not stream:
        assert json.loads(body)["choices"][0]["message"]["content"] == "first late"
        return
    *chunks, done = data_of(body)
    choices = [json.loads(chunk)["choices"][0] for chunk in chunks]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == "first late"
    assert choices[-1]["finish_reason"] == "stop" and done == "[DONE]"


def test_a_client_that_ended_its_input_reads_the_load_and_the_whole_stream(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("half-closed-cold")
    connection = web.open_chat("half-closed-cold", headers={"X-LocalAI-Loading": "stream"}, stream=True)
    connection.shutdown(socket.SHUT_WR)
    job_id, slow = bench.place("half-closed-cold"), Silent("first ")
    assert not slow.started.wait(LOOKS_S)
    bench.finish(job_id, bench.backend(slow))
    assert slow.started.wait(LIMIT_S)
    assert not slow.cancelled.wait(LOOKS_S)
    slow.go.set()
    with reading(connection) as response:
        body = response.read()
    assert b": loading " in body and data_of(body)[-1] == "[DONE]" and '"late"' in data_of(body)[-3]


@pytest.mark.parametrize(
    ("path", "body", "script"),
    [
        ("/v1/completions", {"prompt": ["a", "b"]}, says("text")),
        ("/v1/completions", {"prompt": ["a", "b"], "stream": True}, says("text")),
        ("/v1/embeddings", {"input": ["a", "b"]}, embeds(lambda _: [1.0])),
        ("/v1/rerank", {"query": "q", "documents": ["a"]}, ranks(1.0)),
    ],
    ids=["completions", "streamed completions", "embeddings", "rerank"],
)
def test_every_route_answers_a_client_that_ended_its_input(
    bench: Bench, web: WebProcess, path: str, body: dict[str, Any], script: Any
) -> None:
    model = bench.model(f"half-closed{path.replace('/', '-')}-{body.get('stream')}")
    connection = web.open_post(path, {"model": model, **body})
    connection.shutdown(socket.SHUT_WR)

    def slow(asked: Asked) -> Any:
        asked.over.wait(LOOKS_S)
        return script(asked)

    bench.load(model, bench.backend(slow))
    with reading(connection) as response:
        assert response.status == 200, response.read()
        assert response.read()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_close_after_the_end_of_input_cancels_the_call(
    bench: Bench, web: WebProcess, node: Node, stream: bool
) -> None:
    model, silent = bench.model(f"half-then-closed-{stream}"), Silent("first ")
    connection = web.open_chat(model, stream=stream)
    connection.shutdown(socket.SHUT_WR)
    bench.load(model, bench.backend(silent))
    assert silent.started.wait(LIMIT_S)
    assert not silent.cancelled.wait(LOOKS_S), "the client still reads"
    while stream and b"first" not in connection.recv(65536, socket.MSG_PEEK):
        pass
    while stream and b"first" not in connection.recv(65536):
        pass
    connection.close()
    assert silent.cancelled.wait(5)


def test_a_job_can_be_followed_by_a_client_that_ended_its_input(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("half-closed-job")
    chat = bench.in_background(lambda: web.chat("half-closed-job"))
    job_id, silent = bench.place("half-closed-job"), Silent()
    connection = web.open_get(f"/api/jobs/{job_id}/events")
    connection.shutdown(socket.SHUT_WR)
    assert not silent.started.wait(LOOKS_S)
    bench.finish(job_id, bench.backend(says("done")))
    with reading(connection) as response:
        assert b'event: end\ndata: {"state": "succeeded"}' in response.read()
    assert chat.result(LIMIT_S).status_code == 200
