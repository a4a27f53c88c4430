"""The error of a client whose call was cut or came over a limit: typed, and never the end of a whole answer."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from localai import errors, metrics
from tests.fakes.inference import Silent
from tests.fakes.routing import Replica
from tests.fakes.web import WebBench
from tests.loopback import eventually
from web.errors import stream_body

pytestmark = pytest.mark.unit

ROUTES = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
    ("/v1/completions", {"prompt": "hello"}),
    ("/v1/completions", {"prompt": ["hello", "again"]}),
    ("/v1/embeddings", {"input": ["a", "b"]}),
    ("/v1/rerank", {"query": "q", "documents": ["a"]}),
]


@pytest.fixture
def bench(tmp_path: Path) -> WebBench:
    return WebBench(tmp_path)


class Asking:
    """One request in a thread."""

    def __init__(self, bench: WebBench, path: str, body: dict[str, Any]) -> None:
        self.answers: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.answers.append(bench.post(path, {"model": "m", **body})))
        self._thread.start()

    def end(self) -> Any:
        self._thread.join(30)
        (answer,) = self.answers
        return answer


def counted(cause: str) -> float:
    """Calls of the model that were ended for this cause so far."""
    return float(metrics.CALLS_CUT.labels("m", cause)._value.get())


def cut(bench: WebBench, replica: Replica) -> None:
    """The rows mark the replica, and its requests are to be ended."""
    bench.route()
    bench.table.cut(replica.process_instance)


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_a_call_that_is_cut_is_503_model_unloaded_and_is_not_sent_again(
    bench: WebBench, path: str, body: dict[str, Any]
) -> None:
    script, before = Silent(), counted("unloaded")
    replica = bench.model("m", script)
    asking = Asking(bench, path, body)
    assert script.started.wait(30)
    cut(bench, replica)
    answer = asking.end()
    assert counted("unloaded") > before
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "model_unloaded")
    assert script.cancelled.wait(30)
    eventually(lambda: bench.table.in_flight(replica.endpoint) == 0, "nothing in flight")
    assert bench.loads.requests == [], "a repeat would load the model again"


@pytest.mark.parametrize(("path", "body"), ROUTES[:2])
def test_a_stream_that_is_cut_ends_with_the_code_and_without_a_finish_reason(
    bench: WebBench, path: str, body: dict[str, Any]
) -> None:
    script = Silent("first")
    replica = bench.model("m", script)
    asking = Asking(bench, path, {**body, "stream": True})
    assert script.started.wait(30)
    cut(bench, replica)
    events = [json.loads(line[6:]) for line in asking.end().text.splitlines() if line.startswith("data: {")]
    assert events[-1]["error"]["code"] == "model_unloaded"
    assert {choice["finish_reason"] for event in events[:-1] for choice in event["choices"]} == {None}
    assert bench.table.in_flight(replica.endpoint) == 0


@pytest.mark.parametrize(("path", "body"), ROUTES)
def test_a_call_without_an_answer_is_504_at_the_limit_of_its_config(
    bench: WebBench, path: str, body: dict[str, Any]
) -> None:
    script = Silent()
    replica = bench.model("m", script, timeouts="{first_byte: 100ms}")
    answer = bench.post(path, {"model": "m", **body})
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (504, "first_byte_timeout")
    assert script.cancelled.wait(30)
    eventually(lambda: bench.table.in_flight(replica.endpoint) == 0, "nothing in flight")


def test_a_stream_that_pauses_ends_with_an_error_event_at_the_limit_of_its_config(bench: WebBench) -> None:
    before = counted("idle")
    bench.model("m", Silent("first"), timeouts="{idle: 100ms}")
    text = bench.chat(stream=True).text
    assert counted("idle") == before + 1
    assert '"first"' in text and '"code":"idle_timeout"' in text and '"finish_reason":"' not in text


def test_a_stream_keeps_the_code_of_limits_and_cuts_only() -> None:
    kept = (errors.FirstByteTimeout, errors.IdleTimeout, errors.ModelUnloaded)
    assert [stream_body(kind())["error"]["code"] for kind in kept] == [
        "first_byte_timeout",
        "idle_timeout",
        "model_unloaded",
    ]
    assert stream_body(errors.BackendUnavailable())["error"]["code"] == "server_error"
