"""Inference through a real web process: cold, warm, streamed, cancelled, and on replicas that break."""

from __future__ import annotations

import json
import signal

import grpc
import pytest

from tests.fakes.inference import Silent, fails, says
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.loopback import LIMIT_S, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_a_cold_request_waits_and_is_served_and_the_next_makes_no_statement(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("cold")
    waits = [bench.in_background(lambda: web.chat("cold")) for _ in range(10)]
    backend = bench.backend(says("warm", " and ready"))
    bench.load("cold", backend)
    for wait in waits:
        response = wait.result(LIMIT_S)
        assert response.status_code == 200, response.text
        assert response.json()["choices"][0]["message"]["content"] == "warm and ready"
    assert {options.ModelIdentity for options in backend.asked} == {"cold"}
    assert web.statements_of(web.chat("cold")) == 0
    assert web.statements_of(web.chat("cold", stream=True)) == 0
    assert web.statements_of(web.client.get("/api/jobs")) > 0, "the counter counts nothing"
    assert "model=cold" in web.request_line(web.chat("cold").headers["X-Request-Id"])


def test_ap_02_a_stream_has_the_original_api_s_shape(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("streamed")
    wait = bench.in_background(lambda: web.chat("streamed", stream=True, stream_options={"include_usage": True}).text)
    bench.load("streamed", bench.backend(says("Par", "is", "!")))
    events = [line.removeprefix("data: ") for line in wait.result(LIMIT_S).split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [c["choices"][0]["delta"].get("content") for c in chunks[1:4]] == ["Par", "is", "!"]
    assert chunks[-2]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 3
    assert all("usage" not in chunk for chunk in chunks[:-1])


@pytest.mark.parametrize("stream", [False, True])
def test_pm_06_a_client_that_leaves_a_silent_model_cancels_the_call(
    bench: Bench, web: WebProcess, node: Node, stream: bool
) -> None:
    model = bench.model(f"silent-{stream}")
    script = Silent()
    wait = bench.in_background(lambda: bench.load(model, bench.backend(script)))
    connection = web.open_chat(model, stream=stream)
    wait.result(LIMIT_S)
    assert script.started.wait(LIMIT_S)
    connection.close()
    assert script.cancelled.wait(5), "the model goes on for nobody"


def test_sc_07_a_client_that_leaves_a_stream_cancels_it_and_the_next_request_works(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("interrupted")
    silent = Silent("first")
    backend = bench.backend(silent)
    wait = bench.in_background(lambda: bench.load("interrupted", backend))
    connection = web.open_chat("interrupted", stream=True)
    wait.result(LIMIT_S)
    assert silent.started.wait(LIMIT_S)
    received = b""
    while b"first" not in received:
        received += connection.recv(65536)
    connection.close()
    assert silent.cancelled.wait(5)
    backend.script = says("again")
    assert web.chat("interrupted").json()["choices"][0]["message"]["content"] == "again"


def test_lj_02_a_client_that_leaves_while_waiting_leaves_the_load_alone(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("left")
    connection = web.open_chat("left")
    job_id = bench.place("left")
    connection.close()
    status = web.client.get("/api/models/left/load-status").json()
    assert (status["job_id"], status["model"]) == (job_id, "left")
    bench.finish(job_id, bench.backend(says("still here")))
    assert web.chat("left").status_code == 200
    assert web.client.get("/api/models/left/load-status").status_code == 404


def test_rt_06_a_process_that_lost_its_model_is_replaced_and_the_same_request_served(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("forgetful")
    forgetful = bench.backend(says("first"))
    wait = bench.in_background(lambda: web.chat("forgetful"))
    first = bench.load("forgetful", forgetful)
    assert wait.result(LIMIT_S).status_code == 200

    forgetful.script = fails(grpc.StatusCode.FAILED_PRECONDITION, "model not loaded")
    wait = bench.in_background(lambda: web.chat("forgetful"))
    eventually(lambda: bench.live("forgetful") is not None, "a new attempt")
    filters = f"kind=replica.cleanup&subject={forgetful.endpoint.process_instance}"

    def is_to_be_stopped() -> bool:
        bench.ownership.clean()
        return len(web.client.get(f"/api/jobs?{filters}").json()["jobs"]) == 1

    eventually(is_to_be_stopped, "the stop of the process that holds no model")
    bench.process_ended(forgetful)
    second = bench.load("forgetful", bench.backend(says("second")))
    response = wait.result(LIMIT_S)
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "second"
    assert first != second


def test_rt_01_a_process_that_ended_is_replaced_and_the_same_request_served(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("fragile")
    fragile = bench.backend(says("first"))
    wait = bench.in_background(lambda: web.chat("fragile"))
    bench.load("fragile", fragile)
    assert wait.result(LIMIT_S).status_code == 200
    fragile.stop()
    wait = bench.in_background(lambda: web.chat("fragile"))
    eventually(lambda: "a replica does not serve" in web.text(), "the broken connection")
    bench.process_ended(fragile)
    # Its port goes to another model's process at once: nothing of the old entry may reach it.
    other = bench.backend(says("from another model"), port=fragile.port)
    bench.load("fragile", bench.backend(says("second")))
    response = wait.result(LIMIT_S)
    assert response.json()["choices"][0]["message"]["content"] == "second"
    assert other.asked == []


def test_a_request_under_which_a_process_ends_is_answered_and_loads_nothing(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    """It may be what ended the process, and would end the next one."""
    bench.model("crashes")
    crashes = bench.backend(says("first"))
    wait = bench.in_background(lambda: web.chat("crashes"))
    bench.load("crashes", crashes)
    assert wait.result(LIMIT_S).status_code == 200
    silent = Silent()
    crashes.script = silent
    wait = bench.in_background(lambda: web.chat("crashes"))
    assert silent.started.wait(LIMIT_S)
    crashes.stop()
    response = wait.result(LIMIT_S)
    assert (response.status_code, response.json()["error"]["code"]) == (502, "backend_crashed")
    assert bench.live("crashes") is None, "no attempt to load it for this request"


def test_a_broken_connection_to_a_living_process_heals_by_itself(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("blinking")
    blinking = bench.backend(says("before"))
    wait = bench.in_background(lambda: web.chat("blinking"))
    bench.load("blinking", blinking)
    assert wait.result(LIMIT_S).status_code == 200
    blinking.stop()
    wait = bench.in_background(lambda: web.chat("blinking"))
    eventually(lambda: web.text().count("a replica does not serve") >= 1, "the broken connection")
    again = bench.backend(says("after"), port=blinking.port)
    response = wait.result(LIMIT_S)
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "after"
    assert again.asked
    assert bench.live("blinking") is None, "nothing was loaded again"


def test_an_error_in_a_started_stream_is_one_event_and_the_end(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("breaks")
    wait = bench.in_background(lambda: web.chat("breaks", stream=True).text)
    bench.load("breaks", bench.backend(fails(grpc.StatusCode.INTERNAL, "it broke", after=("some",))))
    events = [line.removeprefix("data: ") for line in wait.result(LIMIT_S).split("\n\n") if line]
    assert events[-1] == "[DONE]"
    error = json.loads(events[-2])["error"]
    assert (error["type"], error["code"]) == ("server_error", "server_error")
    assert "it broke" in error["message"]


def test_a_killed_web_worker_is_replaced_and_its_row_ended(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("kept")
    wait = bench.in_background(lambda: web.chat("kept"))
    bench.load("kept", bench.backend(says("kept")))
    assert wait.result(LIMIT_S).status_code == 200
    worker = web.worker_pid()
    import os

    os.kill(worker, signal.SIGKILL)

    def ended() -> bool:
        with bench.engine.connect() as connection:
            row = connection.exec_driver_sql(
                "SELECT ended_at FROM frontends WHERE pid = %(pid)s", {"pid": worker}
            ).first()
        return row is not None and row[0] is not None

    eventually(ended, "the row of the killed worker ended")
    eventually(web.ready, "another worker")
    assert web.chat("kept").status_code == 200
