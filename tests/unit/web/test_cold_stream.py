"""A stream of a model that loads: comments until the first token, then the answer, or what a 503 would have said."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from localai import metrics
from localai.bus.subjects import job_progress, job_result
from localai.errors import CallCancelled, StorageUnavailable
from localai.loads.attempts import Status
from tests.fakes.inference import Script, Silent, fails, says
from tests.fakes.loads import FakeStatus
from tests.fakes.routing import Replica
from tests.fakes.web import WebBench
from tests.loopback import LIMIT_S, eventually
from web.account import open_account
from web.client_watch import ClientWatch, Watch
from web.cold_stream import ColdStream, comment
from web.serving import Tell
from web.sse import KEEP_ALIVE

pytestmark = pytest.mark.unit

ASKED = {"X-LocalAI-Loading": "stream"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": True},
    "/v1/completions": {"model": "m", "prompt": "hello", "stream": True},
}
both = pytest.mark.parametrize("path", list(BODIES))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a known status one that came too late."""
    monkeypatch.setattr("web.cold_stream.FIRST_WORD_S", LIMIT_S)


class Cold:
    """A cold model, a request for it, and the events of its stream one by one."""

    def __init__(self, bench: WebBench, path: str, *, headers: dict[str, str] = ASKED, **config: str) -> None:
        self.bench = bench
        self.replica = bench.model("m", **config)
        self.response = bench.post(path, BODIES[path], headers=headers, buffered=False)
        self.events: Iterator[bytes] = iter(self.response.iter_encoded())

    def next(self) -> str:
        return next(self.events).decode()

    def loading(self) -> dict[str, Any]:
        """The next comment."""
        text = self.next()
        assert text.startswith(": loading {") and text.endswith("}\n\n") and text.count("\n") == 2, text
        found: dict[str, Any] = json.loads(text.removeprefix(": loading "))
        return found

    def move(self, state: str, progress: float) -> None:
        self.bench.loads.move("job-1", state, progress)
        self.bench.bus.publish(job_progress("job-1"), {})

    def serve(self, script: Script) -> None:
        """The load succeeds."""
        self.bench.loads.succeed("job-1")
        self.bench.inference.scripts[self.replica.endpoint] = script
        self.bench.route(self.replica)  # type: ignore[arg-type]

    def fail(self, error: str) -> None:
        self.bench.loads.fail("job-1", error, retry_after_s=140)
        self.bench.bus.publish(job_result("job-1"), {})

    def rest(self) -> list[str]:
        return [event for event in b"".join(self.events).decode().split("\n\n") if event]


@both
def test_the_load_is_told_in_comments_and_then_the_answer_comes(bench: WebBench, path: str) -> None:
    cold = Cold(bench, path)
    assert (cold.response.status_code, cold.response.mimetype) == (200, "text/event-stream")
    assert cold.loading() == bench.loads.attempts["job-1"].to_json()
    cold.move("staging", 41.2)
    seen = cold.loading()
    assert (seen["state"], seen["progress"]) == ("staging", 41.2)
    cold.serve(says("Par", "is"))
    rest = cold.rest()
    cold.response.close()
    answer = [event for event in rest if not event.startswith(":")]
    assert rest[-len(answer) :] == answer, "no comment after the first token"
    warm = bench.post(path, BODIES[path]).get_data(as_text=True)
    assert _shape("\n\n".join(answer)) == _shape(warm.strip())
    assert answer[-1] == "data: [DONE]"
    assert bench.loads.requests == ["m"]
    assert bench.table.in_flight(cold.replica.endpoint) == 0


def _shape(text: str) -> list[Any]:
    """The events without what differs from answer to answer."""
    events = [event.removeprefix("data: ") for event in text.split("\n\n") if event]
    return [event if event == "[DONE]" else {**json.loads(event), "id": "", "created": 0} for event in events]


@both
def test_a_load_that_fails_ends_the_stream_with_what_the_503_says(bench: WebBench, path: str) -> None:
    cold = Cold(bench, path)
    cold.loading()
    cold.fail("worker out of disk")
    events = [event for event in cold.rest() if not event.startswith(":")]
    cold.response.close()
    refused = bench.post(path, BODIES[path])
    assert refused.status_code == 503
    assert events[1:] == ["data: [DONE]"]
    assert json.loads(events[0].removeprefix("data: ")) == refused.get_json()
    assert refused.get_json()["error"]["code"] == "model_load_failed"
    assert refused.get_json()["loading"]["last_error"] == "worker out of disk"


@both
def test_a_load_of_which_nothing_is_heard_ends_the_stream_and_claims_nothing(tmp_path: Path, path: str) -> None:
    bench = WebBench(tmp_path, waits={"poll_interval_s": 0.02, "silence_s": 0.1})
    cold = Cold(bench, path)
    cold.loading()
    bench.loads.refusing = True
    events = [event for event in cold.rest() if not event.startswith(":")]
    cold.response.close()
    body = json.loads(events[0].removeprefix("data: "))
    assert body["error"]["code"] == "storage_unavailable" and "loading" not in body
    assert events[1:] == ["data: [DONE]"]


@both
def test_the_wait_is_bounded_by_the_load_and_not_by_the_wait_of_other_requests(tmp_path: Path, path: str) -> None:
    bench = WebBench(tmp_path, waits={"wait_s": 0.01, "poll_interval_s": 0.005, "silence_s": LIMIT_S})
    cold = Cold(bench, path)
    cold.loading()
    assert bench.post(path, BODIES[path]).status_code == 503, "the wait of a request without the header is over"
    cold.serve(says("late"))
    assert "late" in "".join(cold.rest())
    cold.response.close()


@both
def test_what_is_known_at_once_keeps_its_status(tmp_path: Path, path: str) -> None:
    bench = WebBench(tmp_path, waits={"per_model": 1})
    bench.model("held")
    bench.loads.request("held", "r")
    bench.loads.fail("job-1", "digest mismatch", retry_after_s=140)
    held = bench.post(path, {**BODIES[path], "model": "held"}, headers=ASKED)
    assert (held.status_code, held.headers["Retry-After"]) == (503, "140")
    assert held.get_json()["error"]["code"] == "model_load_failed"

    bench.model("m")
    first = bench.post(path, BODIES[path], headers=ASKED, buffered=False)
    assert first.status_code == 200
    for headers in (ASKED, {}):
        full = bench.post(path, BODIES[path], headers=headers)
        assert (full.status_code, full.get_json()["error"]["code"]) == (503, "model_loading")
        assert 5 <= int(full.headers["Retry-After"]) <= 300
    first.close()
    eventually(lambda: bench.waiters.waiting() == {}, "no waiter left")

    bench.loads.refusing = True
    refused = bench.post(path, {**BODIES[path], "model": "held"}, headers=ASKED)
    assert (refused.status_code, refused.get_json()["error"]["code"]) == (503, "storage_unavailable")


@both
def test_a_model_that_breaks_before_its_first_token_ends_the_stream_with_its_own_code(
    bench: WebBench, path: str
) -> None:
    cold = Cold(bench, path)
    cold.loading()
    cold.serve(fails(grpc.StatusCode.INVALID_ARGUMENT, "the prompt is too long"))
    events = [event for event in cold.rest() if not event.startswith(":")]
    cold.response.close()
    error = json.loads(events[0].removeprefix("data: "))["error"]
    assert (error["code"], error["type"]) == ("backend_rejected", "invalid_request_error")
    assert "the prompt is too long" in error["message"] and events[1:] == ["data: [DONE]"]
    assert bench.table.in_flight(cold.replica.endpoint) == 0


@both
def test_a_model_that_is_there_and_thinks_is_said_to_load_no_more(bench: WebBench, path: str) -> None:
    cold, silent = Cold(bench, path), Silent()
    cold.loading()
    cold.serve(silent)
    assert silent.started.wait(LIMIT_S)
    assert cold.next() == KEEP_ALIVE.decode()
    silent.go.set()
    assert "late" in "".join(cold.rest())
    cold.response.close()


@both
@pytest.mark.parametrize("served", [False, True])
def test_lj_02_a_client_that_leaves_ends_its_wait_its_call_and_nothing_else(
    bench: WebBench, path: str, served: bool
) -> None:
    cold = Cold(bench, path)
    cold.loading()
    silent = Silent()
    if served:
        cold.serve(silent)
        assert silent.started.wait(LIMIT_S)
    cold.response.close()
    eventually(lambda: bench.waiters.waiting() == {}, "no waiter left")
    if served:
        assert silent.cancelled.wait(LIMIT_S)
        eventually(lambda: bench.table.in_flight(cold.replica.endpoint) == 0, "no call counted")
    else:
        assert bench.loads.attempts["job-1"].job_state == "running"


@both
def test_a_warm_model_answers_byte_for_byte_as_without_the_header(
    bench: WebBench, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.openai.chat.new_id", lambda: "one")
    monkeypatch.setattr("web.openai.completions.new_id", lambda: "one")
    monkeypatch.setattr("time.time", lambda: 1.0)
    bench.model("m", says("a", "b"))
    monkeypatch.setattr("web.openai.responses.ColdStream", None)  # nothing of it is made
    answers = [bench.post(path, BODIES[path], headers=headers) for headers in ({}, ASKED, {"x-localai-loading": "off"})]
    assert len({answer.get_data() for answer in answers}) == 1
    drawn = {"X-Request-Id", "X-Correlation-ID"}
    assert len({tuple(pair for pair in answer.headers if pair[0] not in drawn) for answer in answers}) == 1


@both
def test_a_warm_error_keeps_its_status(bench: WebBench, path: str) -> None:
    bench.model("m", fails(grpc.StatusCode.RESOURCE_EXHAUSTED, "full"))
    response = bench.post(path, BODIES[path], headers=ASKED)
    assert (response.status_code, response.get_json()["error"]["code"]) == (503, "backend_busy")


@both
def test_a_replica_that_is_gone_makes_the_model_cold_and_its_load_is_told(bench: WebBench, path: str) -> None:
    gone = bench.model("m")
    bench.route(gone)
    response = bench.post(path, BODIES[path], headers=ASKED, buffered=False)
    assert response.status_code == 200
    events = response.iter_encoded()
    assert next(events).startswith(b": loading {")
    again = Replica(model="m", process_instance="again", address="127.0.0.1:2")
    bench.inference.scripts[again.endpoint] = says("back")
    bench.route(again)
    assert b"back" in b"".join(events)
    response.close()


@both
@pytest.mark.parametrize("value", ["maybe", "", "true", "stream, off", "Stream!"])
def test_a_bad_value_of_the_header_is_a_400_that_names_it(bench: WebBench, path: str, value: str) -> None:
    bench.model("m")
    response = bench.post(path, BODIES[path], headers={"X-LocalAI-Loading": value})
    assert response.status_code == 400
    error = response.get_json()["error"]
    assert error["param"] == "X-LocalAI-Loading" and error["code"] == "invalid_value"
    assert repr(value) in error["message"] and "accepted: stream, or off" in error["message"]
    assert bench.loads.requests == []


@both
def test_without_the_header_and_without_a_stream_nothing_is_told(bench: WebBench, path: str) -> None:
    bench.model("m")
    for headers, changed in (({}, {}), ({"X-LocalAI-Loading": "off"}, {}), (ASKED, {"stream": False})):
        response = bench.post(path, {**BODIES[path], **changed}, headers=headers)
        assert (response.status_code, response.get_json()["error"]["code"]) == (503, "model_loading")


@both
def test_the_config_s_switch_tells_without_a_header_and_the_header_can_say_no(bench: WebBench, path: str) -> None:
    cold = Cold(bench, path, headers={}, stream_loading="true")
    assert cold.response.status_code == 200
    assert cold.loading()["model"] == "m"
    assert bench.post(path, BODIES[path], headers={"X-LocalAI-Loading": "off"}).status_code == 503
    cold.serve(says("a"))
    cold.rest()
    cold.response.close()


def test_several_prompts_of_a_cold_model_are_told_once_and_streamed_in_turn(bench: WebBench) -> None:
    replica = bench.model("m")
    body = {**BODIES["/v1/completions"], "prompt": ["a", "bb"]}
    response = bench.post("/v1/completions", body, headers=ASKED, buffered=False)
    events = response.iter_encoded()
    assert next(events).startswith(b": loading {")
    bench.inference.scripts[replica.endpoint] = says("x", "y")
    bench.route(replica)
    told = [event for event in b"".join(events).decode().split("\n\n") if event.startswith("data: {")]
    response.close()
    chunks = [json.loads(event.removeprefix("data: ")) for event in told]
    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 0, 0, 1, 1, 1]
    assert bench.table.in_flight(replica.endpoint) == 0


# What is counted


def _count(name: str, **labels: str) -> float:
    for family in metrics.collected(metrics.FRONTEND):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return 0.0


def _ends(outcome: str, model: str) -> float:
    return _count("localai_requests_total", model=model, outcome=outcome)


@pytest.fixture
def named(request: pytest.FixtureRequest) -> str:
    """A model name no other test counts under."""
    return f"counted-{request.node.name}"


def _ask(bench: WebBench, model: str) -> Any:
    body = {**BODIES["/v1/chat/completions"], "model": model}
    return bench.post("/v1/chat/completions", body, headers=ASKED, buffered=False)


def test_the_time_to_the_first_token_ends_with_the_token_and_not_with_a_comment(bench: WebBench, named: str) -> None:
    replica = bench.model(named)
    response = _ask(bench, named)
    events = response.iter_encoded()
    assert next(events).startswith(b": loading {")
    assert _count("localai_time_to_first_token_seconds_count", model=named) == 0
    overhead = _count("localai_router_overhead_seconds_count")
    assert _count("localai_waiters", model=named) == 1
    bench.inference.scripts[replica.endpoint] = says("a")
    bench.route(replica)
    assert b"[DONE]" in b"".join(events)
    response.close()
    assert _count("localai_time_to_first_token_seconds_count", model=named) == 1
    assert _count("localai_router_overhead_seconds_count") == overhead + 1
    assert _count("localai_waiters", model=named) == 0
    assert (_ends("ok", named), _ends("failed", named), _ends("cancelled", named)) == (1, 0, 0)


def test_a_failed_load_counts_as_failed_although_its_status_is_200(bench: WebBench, named: str) -> None:
    bench.model(named)
    response = _ask(bench, named)
    events = response.iter_encoded()
    next(events)
    bench.loads.fail("job-1", "no")
    bench.bus.publish(job_result("job-1"), {})
    b"".join(events)
    response.close()
    assert (_ends("failed", named), _ends("ok", named)) == (1, 0)
    assert _count("localai_time_to_first_token_seconds_count", model=named) == 0


def test_a_wait_that_ends_without_an_answer_counts_as_failed_and_not_as_ok(tmp_path: Path, named: str) -> None:
    bench = WebBench(tmp_path, waits={"poll_interval_s": 0.02, "silence_s": 0.1})
    bench.model(named)
    route = {"method": "POST", "path": "/v1/chat/completions", "outcome": "server_error"}
    before = _count("api_call_count", **route)
    response = _ask(bench, named)
    events = response.iter_encoded()
    next(events)
    bench.loads.refusing = True
    b"".join(events)
    response.close()
    assert (_ends("failed", named), _ends("ok", named)) == (1, 0)
    assert _count("api_call_count", **route) == before + 1


@pytest.mark.parametrize("read", [False, True])
def test_a_client_that_leaves_counts_as_cancelled(bench: WebBench, named: str, read: bool) -> None:
    bench.model(named)
    response = _ask(bench, named)
    if read:
        next(response.iter_encoded())
    response.close()
    assert (_ends("cancelled", named), _ends("ok", named)) == (1, 0)


# The stream by itself


class Opened:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def cold_stream(open_stream: Callable[[Tell, Watch], Opened], **limits: float) -> ColdStream[Opened]:
    open_account()
    return ColdStream(open_stream, ClientWatch(None), **limits)


def test_a_comment_comes_again_where_nothing_changes_and_says_nothing_once_the_load_is_over() -> None:
    goes_on: list[Callable[[], None]] = []
    opened = Opened()
    status: Status = FakeStatus("m", "job-1")
    stream: ColdStream[Opened]

    def opens(tell: Tell, watch: Watch) -> Opened:
        gates = [threading.Event(), threading.Event()]
        goes_on.extend(gate.set for gate in gates)
        tell(status)
        assert gates[0].wait(LIMIT_S)
        tell(None)
        assert gates[1].wait(LIMIT_S)
        return opened

    stream = cold_stream(opens, say_s=0.01)
    stream.begin()
    events = stream.events(lambda _: [b"answer"], lambda error: b"error")
    said = comment(status.to_json())
    assert [next(events) for _ in range(3)] == [said] * 3
    goes_on[0]()
    assert KEEP_ALIVE in events, "the load is over, and the model thinks"
    goes_on[1]()
    assert b"answer" in events
    stream.close()
    assert opened.closed


def test_a_stream_that_opens_after_its_client_left_is_closed() -> None:
    gate, late = threading.Event(), Opened()

    def opens(tell: Tell, watch: Watch) -> Opened:
        tell(FakeStatus("m", "job-1"))
        assert gate.wait(LIMIT_S)
        return late

    stream = cold_stream(opens)
    stream.begin()
    stream.close()
    gate.set()
    eventually(lambda: late.closed, "the late stream is closed")


def test_a_bug_while_opening_ends_the_stream_with_an_error() -> None:
    def opens(tell: Tell, watch: Watch) -> Opened:
        tell(FakeStatus("m", "job-1"))
        raise RuntimeError("a bug")

    stream = cold_stream(opens)
    stream.begin()
    assert list(stream.events(lambda _: [], lambda error: type(error).__name__.encode()))[-1] == b"LocalAIError"
    stream.close()


def test_a_cancelled_call_cuts_the_stream() -> None:
    def opens(tell: Tell, watch: Watch) -> Opened:
        tell(FakeStatus("m", "job-1"))
        raise CallCancelled

    stream = cold_stream(opens)
    stream.begin()
    events = stream.events(lambda _: [], lambda error: b"error")
    assert next(events).startswith(b": loading ")
    with pytest.raises(CallCancelled):
        next(events)
    stream.close()


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028data: x", "a\x85b", "é 漢 🙂", 'quote " and \\'])
def test_a_comment_is_one_line_whatever_the_error_says(text: str) -> None:
    line = comment({"model": "m", "last_error": text}).decode("ascii")
    assert line.endswith("\n\n") and len(line.strip().splitlines()) == 1
    assert json.loads(line.removeprefix(": loading ")) == {"model": "m", "last_error": text}


def test_what_is_not_known_soon_does_not_hold_up_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.cold_stream.FIRST_WORD_S", 0.01)
    gate = threading.Event()

    def opens(tell: Tell, watch: Watch) -> Opened:
        assert gate.wait(LIMIT_S)
        raise StorageUnavailable

    stream = cold_stream(opens)
    stream.begin()
    events = stream.events(lambda _: [], lambda error: type(error).__name__.encode())
    assert next(events) == KEEP_ALIVE
    gate.set()
    assert list(events)[-1] == b"StorageUnavailable"
    stream.close()
