"""Loading before anybody asks, and unloading under a stream: a real web process over real rows and a gRPC process."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator

import httpx2
import pytest

from protos import backend_pb2
from tests import plain_http
from tests.fakes.inference import Asked, Script, says
from tests.integration.web.bench import Bench, Node, WebProcess
from tests.loopback import LIMIT_S, eventually

pytestmark = pytest.mark.integration


class Spoken:
    """A script that says what the test gives it, one word after the other."""

    def __init__(self) -> None:
        self.words: queue.Queue[str | None] = queue.Queue()

    def __call__(self, asked: Asked) -> Iterator[backend_pb2.Reply]:
        while (word := self.words.get(timeout=LIMIT_S)) is not None:
            yield backend_pb2.Reply(message=word.encode())


def _post(web: WebProcess, path: str, model: object) -> httpx2.Response:
    return web.client.post(path, json={"model": model})


def _words(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))["choices"][0]["delta"].get("content") or ""


def test_a_load_that_was_asked_for_is_the_one_a_request_waits_for(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("asked-for")
    begun = _post(web, "/backend/load", "asked-for")
    assert begun.status_code == 202, begun.text
    assert begun.json()["loaded"] == [] and "asked-for" in begun.json()["message"]
    again = _post(web, "/v1/backend/load", "asked-for")
    assert (again.status_code, again.json()["job_id"]) == (202, begun.json()["job_id"])
    wait = bench.in_background(lambda: web.chat("asked-for"))
    assert bench.load("asked-for", bench.backend(says("loaded"))) == begun.json()["job_id"]
    assert wait.result(LIMIT_S).status_code == 200
    loaded = _post(web, "/backend/load", "asked-for")
    assert (loaded.status_code, loaded.json()["loaded"]) == (200, ["asked-for"])


def test_i7_a_stream_under_way_ends_by_itself_and_new_requests_load_anew(
    bench: Bench, web: WebProcess, node: Node
) -> None:
    bench.model("drained")
    spoken = Spoken()
    script: Script = spoken
    old = bench.backend(script)
    loading = bench.in_background(lambda: _post(web, "/backend/load", "drained"))
    assert loading.result(LIMIT_S).status_code == 202
    bench.load("drained", old)
    eventually(lambda: _state(web, "drained") == "loaded", "the model in the table")
    body = {"model": "drained", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    spoken.words.put("first")
    with web.client.stream("POST", "/v1/chat/completions", json=body) as response:
        words = _words(response.iter_lines())
        assert next(word for word in words if word) == "first"
        unload = _post(web, "/backend/shutdown", "drained")
        assert unload.status_code == 202, unload.text
        job = unload.json()["job_id"]
        eventually(lambda: _acknowledged(bench, "drained") == [1], "the count of the stream")
        bench.ownership.clean()
        assert web.client.get(f"/api/jobs/{job}").json()["children"] == []
        fresh = bench.in_background(lambda: web.chat("drained"))
        bench.load("drained", bench.backend(says("from the new one")))
        assert fresh.result(LIMIT_S).json()["choices"][0]["message"]["content"] == "from the new one"
        spoken.words.put("last")
        spoken.words.put(None)
        assert [word for word in words if word] == ["last"]
    eventually(lambda: _acknowledged(bench, "drained") == [0], "the end of the stream")
    bench.ownership.clean()
    (cleanup,) = web.client.get(f"/api/jobs/{job}").json()["children"]
    assert (cleanup["kind"], cleanup["subject"]) == ("replica.cleanup", old.endpoint.process_instance)


def _state(web: WebProcess, name: str) -> str:
    (model,) = [model for model in web.client.get("/api/models").json()["models"] if model["name"] == name]
    return str(model["state"])


def _acknowledged(bench: Bench, model: str) -> list[int]:
    """What every live frontend has said of the replicas of a model that are going."""
    with bench.engine.connect() as connection:
        rows = connection.exec_driver_sql(
            "SELECT a.in_flight FROM drain_acks a JOIN replicas r ON r.id = a.replica_id WHERE r.model = %(model)s",
            {"model": model},
        )
        return [row.in_flight for row in rows]


def test_a_load_that_failed_a_moment_ago_is_refused_with_its_cause(bench: Bench, web: WebProcess, node: Node) -> None:
    bench.model("held")
    begun = _post(web, "/backend/load", "held").json()
    assert _post(web, "/backend/shutdown", "held").json()["message"] == "the load of model held was cancelled"
    refused = _post(web, "/backend/load", "held")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_load_failed")
    assert refused.json()["loading"]["job_id"] == begun["job_id"]
    assert 1 <= int(refused.headers["Retry-After"]) <= 15


@pytest.mark.parametrize("path", ["/backend/load", "/backend/shutdown", "/v1/backend/load", "/v1/backend/shutdown"])
def test_what_cannot_be_loaded_or_unloaded_says_why(bench: Bench, web: WebProcess, path: str) -> None:
    assert _post(web, path, "nobody-wrote-this").status_code == 404
    assert _post(web, path, "nobody-wrote\0this").status_code == 404
    for name in (None, "", "  ", 7, ["a"]):
        assert _post(web, path, name).status_code == 400
    assert plain_http.post(web.url + path, json={"model": "m"}).status_code == 401


def test_unloading_what_is_not_loaded_is_no_error(bench: Bench, web: WebProcess) -> None:
    bench.model("cold-anyway")
    answer = _post(web, "/backend/shutdown", "cold-anyway")
    assert (answer.status_code, answer.json()) == (200, {"message": "model cold-anyway is not loaded", "job_id": None})
