"""POST /v1/chat/completions over fakes: what is asked of the model process, and what the caller gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from localai import metrics
from localai.errors import CallCancelled
from protos import backend_pb2
from tests.fakes.inference import Abort, Asked, fails, says
from tests.fakes.routing import Replica
from tests.fakes.web import WebBench

pytestmark = pytest.mark.unit

Reply = backend_pb2.Reply


def chunks_of(response: Any) -> list[Any]:
    events = [event for event in response.get_data(as_text=True).split("\n\n") if event]
    assert all(event.startswith("data: ") for event in events)
    assert events[-1] == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events[:-1]]


def calls_a_tool(asked: Asked) -> Iterator[backend_pb2.Reply]:
    """Two calls; the second comes without an id."""
    pieces = [(0, "call_a", "weather", ""), (0, "", "", '{"city": '), (0, "", "", '"Oslo"}'), (1, "", "time", "{}")]
    for tokens, (index, call_id, name, arguments) in enumerate(pieces, 1):
        call = backend_pb2.ToolCallDelta(index=index, id=call_id, name=name, arguments=arguments)
        yield Reply(chat_deltas=[backend_pb2.ChatDelta(tool_calls=[call])], tokens=tokens, prompt_tokens=7)


def test_ap_02_an_answer_has_the_original_api_s_shape(bench: WebBench) -> None:
    bench.model("m", says("Par", "is"))
    body = bench.chat().get_json()
    assert body["object"] == "chat.completion" and body["model"] == "m" and body["id"] and body["created"]
    (choice,) = body["choices"]
    assert choice["index"] == 0 and choice["finish_reason"] == "stop"
    assert choice["message"] == {"role": "assistant", "content": "Paris"}
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def test_every_call_carries_the_replica_s_identity(bench: WebBench) -> None:
    bench.model("m", says("a"))
    bench.chat()
    bench.chat(stream=True).get_data()
    assert [options.ModelIdentity for _, options in bench.inference.asked] == ["identity-of-m"] * 2


@pytest.mark.parametrize("include_usage", [False, True])
def test_ap_01_usage_comes_in_one_last_chunk_and_only_when_asked_for(bench: WebBench, include_usage: bool) -> None:
    bench.model("m", says("a", "b"))
    options = {"stream_options": {"include_usage": True}} if include_usage else {}
    chunks = chunks_of(bench.chat(stream=True, **options))
    with_usage = [chunk for chunk in chunks if "usage" in chunk]
    if include_usage:
        assert with_usage == [chunks[-1]]
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    else:
        assert with_usage == []


def test_ap_02_a_stream_begins_with_the_role_and_ends_with_a_reason(bench: WebBench) -> None:
    bench.model("m", says("a", "b"))
    response = bench.chat(stream=True)
    assert response.mimetype == "text/event-stream"
    chunks = chunks_of(response)
    assert len({(chunk["id"], chunk["created"], chunk["object"], chunk["model"]) for chunk in chunks}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert all("role" not in delta for delta in deltas[1:])
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert "".join(delta.get("content", "") for delta in deltas) == "ab"


def test_text_with_quotes_newlines_and_other_scripts_survives_a_stream(bench: WebBench) -> None:
    text = 'a "quoted"\n\\line\t🙂 漢字 \x01'
    bench.model("m", says(text))
    chunks = chunks_of(bench.chat(stream=True))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == text


def test_a_character_cut_between_two_replies_is_one_character(bench: WebBench) -> None:
    data = "é".encode()

    def halves(asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield Reply(message=data[:1], tokens=1)
        yield Reply(message=data[1:], tokens=2)

    bench.model("m", halves)
    chunks = chunks_of(bench.chat(stream=True))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == "é"


@pytest.mark.parametrize("stream", [False, True])
def test_ap_11_a_spent_token_limit_is_the_reason_length_after_one_call(bench: WebBench, stream: bool) -> None:
    bench.model("m", says("a", "b"))
    response = bench.chat(stream=stream, max_tokens=2)
    choice = chunks_of(response)[-1]["choices"][0] if stream else response.get_json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert len(bench.inference.asked) == 1


def test_the_process_s_own_word_for_the_end_wins(bench: WebBench) -> None:
    def full(asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield from says("a")(asked)
        asked.finish_reason = "length"

    bench.model("m", full)
    assert bench.chat().get_json()["choices"][0]["finish_reason"] == "length"
    assert chunks_of(bench.chat(stream=True))[-1]["choices"][0]["finish_reason"] == "length"


def test_ap_03_a_streamed_tool_call_has_one_id_one_name_and_valid_arguments(bench: WebBench) -> None:
    bench.model("m", calls_a_tool)
    tools = [{"type": "function", "function": {"name": name}} for name in ("weather", "time")]
    chunks = chunks_of(bench.chat(stream=True, tools=tools))
    pieces = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    by_index: dict[int, list[Any]] = {}
    for piece in pieces:
        by_index.setdefault(piece["index"], []).append(piece)
    first = by_index[0]
    assert (first[0]["id"], first[0]["type"], first[0]["function"]["name"]) == ("call_a", "function", "weather")
    assert all("id" not in piece and "name" not in piece["function"] for piece in first[1:])
    assert json.loads("".join(piece["function"]["arguments"] for piece in first)) == {"city": "Oslo"}
    assert by_index[1][0]["id"].startswith("call_")
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_ap_03_a_whole_tool_call_is_joined(bench: WebBench) -> None:
    bench.model("m", calls_a_tool)
    choice = bench.chat(tools=[{"type": "function", "function": {"name": "weather"}}]).get_json()["choices"][0]
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    assert choice["finish_reason"] == "tool_calls"


def test_reasoning_is_apart_from_the_content(bench: WebBench) -> None:
    def thinks(asked: Asked) -> Iterator[backend_pb2.Reply]:
        yield Reply(chat_deltas=[backend_pb2.ChatDelta(reasoning_content="hm")], tokens=1)
        yield Reply(chat_deltas=[backend_pb2.ChatDelta(content="yes")], tokens=2)

    bench.model("m", thinks)
    assert bench.chat().get_json()["choices"][0]["message"] == {
        "role": "assistant",
        "content": "yes",
        "reasoning": "hm",
    }
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks_of(bench.chat(stream=True))]
    assert {"reasoning": "hm"} in deltas and {"content": "yes"} in deltas


def test_timings_come_only_to_callers_that_ask(bench: WebBench) -> None:
    bench.model("m", says("a"))
    headers = {**bench.key(), "Extra-Usage": "1"}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    usage = bench.client.post("/v1/chat/completions", json=body, headers=headers).get_json()["usage"]
    assert "timing_token_generation" in usage
    assert "timing_token_generation" not in bench.chat().get_json()["usage"]


def test_a_model_without_a_replica_is_503_with_its_progress(bench: WebBench) -> None:
    bench.model("m")
    response = bench.chat()
    assert response.status_code == 503
    body = response.get_json()
    assert (body["error"]["type"], body["error"]["code"]) == ("model_loading", "model_loading")
    assert body["loading"]["model"] == "m"
    assert response.headers["Retry-After"] == "7"


def test_a_held_model_is_503_with_the_real_cause(bench: WebBench) -> None:
    bench.model("m")
    bench.loads.request("m", "r")
    bench.loads.fail("job-1", "worker out of disk", retry_after_s=140)
    response = bench.chat()
    assert response.status_code == 503
    body = response.get_json()
    assert body["error"]["code"] == "model_load_failed"
    assert "worker out of disk" in body["error"]["message"]
    assert response.headers["Retry-After"] == "140"


def test_rt_12_an_unknown_model_is_404_and_never_a_load(bench: WebBench) -> None:
    response = bench.chat("nobody")
    assert response.status_code == 404
    error = response.get_json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "model_not_found")
    assert bench.loads.requests == []


def test_a_disabled_model_is_403(bench: WebBench) -> None:
    bench.model("m", says("a"), disabled="true")
    response = bench.chat()
    assert (response.status_code, response.get_json()["error"]["code"]) == (403, "model_disabled")
    assert bench.get("/v1/models").get_json()["data"] == []


@pytest.mark.parametrize("stream", [False, True])
def test_rt_01_a_broken_connection_is_tried_once_elsewhere(bench: WebBench, stream: bool) -> None:
    good = Replica(model="m", process_instance="good", address="127.0.0.1:2", slot=1, identity="x")
    broken = bench.model("m")
    bench.inference.scripts[good.endpoint] = says("from the other")
    bench.route(broken, good)
    response = bench.chat(stream=stream)
    assert "from the other" in response.get_data(as_text=True)
    assert bench.feed.refreshes == 1, "the rows are read once in between"
    assert not bench.table.holds("m", exclude=[good.endpoint])


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_under_which_a_process_ended_is_502_and_reaches_no_other(bench: WebBench, stream: bool) -> None:
    good = Replica(model="m", process_instance="good", address="127.0.0.1:2", slot=1, identity="x")
    first = bench.model("m")
    bench.inference.scripts[good.endpoint] = says("from the other")

    def ends(asked: Asked) -> Iterator[backend_pb2.Reply]:
        bench.inference.end_process(first.endpoint)
        assert asked.over.wait(30)
        yield from ()

    bench.inference.scripts[first.endpoint] = ends
    bench.route(first, good)
    before = float(metrics.CALLS_CUT.labels("m", "crashed")._value.get())
    response = bench.chat(stream=stream)
    assert (response.status_code, response.get_json()["error"]["code"]) == (502, "backend_crashed")
    assert "not sent again" in response.get_json()["error"]["message"]
    assert len(bench.inference.asked) == 1
    assert float(metrics.CALLS_CUT.labels("m", "crashed")._value.get()) == before + 1
    assert bench.table.in_flight(first.endpoint) == 0
    assert "from the other" in bench.chat(stream=stream).get_data(as_text=True), "the next one goes to the other"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "text"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "model not loaded"),
        (grpc.StatusCode.NOT_FOUND, "model identity mismatch"),
    ],
)
def test_rt_06_a_process_without_the_model_is_retired_and_the_request_served_elsewhere(
    bench: WebBench, stream: bool, status: grpc.StatusCode, text: str
) -> None:
    good = Replica(model="m", process_instance="good", address="127.0.0.1:2", slot=1, identity="x")
    empty = bench.model("m")
    bench.inference.scripts[empty.endpoint] = fails(status, text)
    bench.inference.scripts[good.endpoint] = says("from the other")
    bench.route(empty, good)
    assert "from the other" in bench.chat(stream=stream).get_data(as_text=True)
    assert bench.retired.retired == ["instance-of-m"]


def test_a_second_failure_is_the_caller_s_answer(bench: WebBench) -> None:
    replicas = [
        Replica(model="m", process_instance=f"i{number}", address=f"127.0.0.1:{number}", slot=number)
        for number in range(3)
    ]
    bench.model("m")
    bench.route(*replicas)
    response = bench.chat()
    assert (response.status_code, response.get_json()["error"]["code"]) == (503, "backend_unavailable")
    assert response.headers["Retry-After"]
    assert (
        sum(bench.table.holds("m", exclude=[r.endpoint for r in replicas if r is not kept]) for kept in replicas) == 1
    )


def test_nothing_is_tried_again_once_the_client_has_seen_something(bench: WebBench) -> None:
    bench.model("m", fails(grpc.StatusCode.UNAVAILABLE, "gone", after=("some",)))
    chunks = chunks_of(bench.chat(stream=True))
    assert chunks[-1]["error"] == {
        "message": chunks[-1]["error"]["message"],
        "type": "server_error",
        "code": "server_error",
        "param": None,
    }
    assert len(bench.inference.asked) == 1


@pytest.mark.parametrize(
    ("status", "expected", "code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, 400, "backend_rejected"),
        (grpc.StatusCode.UNIMPLEMENTED, 400, "not_offered"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, 503, "backend_busy"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, 504, "backend_timeout"),
        (grpc.StatusCode.INTERNAL, 500, "server_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_other_errors_of_a_process_are_answered_once(
    bench: WebBench, stream: bool, status: grpc.StatusCode, expected: int, code: str
) -> None:
    bench.model("m", fails(status, "the process's own words"))
    response = bench.chat(stream=stream)
    assert (response.status_code, response.get_json()["error"]["code"]) == (expected, code)
    assert "the process's own words" in response.get_json()["error"]["message"]
    assert len(bench.inference.asked) == 1
    assert bench.table.holds("m"), "busy is not dead"


@pytest.mark.parametrize("stream", [False, True])
def test_rt_02_no_request_leaves_a_count_behind(bench: WebBench, stream: bool) -> None:
    replica = bench.model("m", says("a"))
    bench.chat(stream=stream).get_data()
    bench.inference.scripts[replica.endpoint] = fails(grpc.StatusCode.INTERNAL)
    bench.chat(stream=stream).get_data()
    bench.inference.scripts[replica.endpoint] = fails(grpc.StatusCode.INTERNAL, after=("a",))
    bench.chat(stream=stream).get_data()
    assert bench.table.in_flight(replica.endpoint) == 0


def test_c19_a_stream_that_nobody_began_to_read_is_counted_down(bench: WebBench) -> None:
    replica = bench.model("m", says("a", "b"))
    response = bench.client.post(
        "/v1/chat/completions",
        json={"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True},
        headers=bench.key(),
        buffered=False,
    )
    assert bench.table.in_flight(replica.endpoint) == 1
    response.close()
    assert bench.table.in_flight(replica.endpoint) == 0


def test_c19_an_end_that_is_no_exception_counts_down(bench: WebBench) -> None:
    """A greenlet is killed with a BaseException."""

    class Killed(BaseException):
        pass

    replica = bench.model("m", says("a"))

    def kill(*_: object) -> None:
        raise Killed

    bench.app.extensions["localai"].serving._signals.picked = kill
    with pytest.raises(Killed):
        bench.chat()
    assert bench.table.in_flight(replica.endpoint) == 0


def test_a_cancelled_call_is_not_an_error_of_the_server(bench: WebBench) -> None:
    def cancelled(asked: Asked) -> Iterator[backend_pb2.Reply]:
        raise Abort(grpc.StatusCode.CANCELLED)
        yield

    bench.model("m", cancelled)
    bench.app.extensions["localai"].serving.predict = _raises(CallCancelled())
    assert bench.chat().status_code == 499


def _raises(error: Exception) -> Any:
    def call(*_: object) -> None:
        raise error

    return call


def test_the_node_header_is_there_when_the_setting_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    from localai.settings import Settings

    for expose in (False, True):
        bench = WebBench(tmp_path_factory.mktemp("web"), settings=Settings(expose_node_header=expose))
        bench.model("m", says("a"))
        for stream in (False, True):
            response = bench.chat(stream=stream)
            response.get_data()
            assert ("X-LocalAI-Node" in response.headers) is expose
        bench.inference.close()


def test_the_correlation_id_reaches_the_process(bench: WebBench) -> None:
    bench.model("m", says("a"))
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    bench.client.post("/v1/chat/completions", json=body, headers={**bench.key(), "X-Correlation-ID": "abc"})
    assert bench.inference.asked[0][1].CorrelationId == "abc"
