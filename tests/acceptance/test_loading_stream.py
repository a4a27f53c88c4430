"""The load in the stream, over two frontends and with the unchanged openai client: comments, then tokens or the cause."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
import pytest

from tests import plain_http
from tests.acceptance.cluster import API_KEY, LIMIT_S, Cluster, Frontend, wait_for

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

ASKED = {"X-LocalAI-Loading": "stream"}
PHASES = ("pending", "installing", "staging", "loading")
QUESTION = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def frontends(shared_cluster: Cluster) -> Iterator[tuple[Frontend, Frontend]]:
    """Two frontends whose usual wait is a second, and one worker."""
    shared_cluster.servers()
    one, two = (shared_cluster.frontend(name, LOCALAI_MODEL_LOAD_WAIT="1s") for name in ("one", "two"))
    shared_cluster.worker("worker", one, two)
    one.wait_for_nodes(1)
    yield one, two


@pytest.fixture
def model(shared_cluster: Cluster, frontends: tuple[Frontend, Frontend], request: pytest.FixtureRequest) -> str:
    """A cold model with the options that `cold` names, listed on both frontends."""
    name = request.node.name
    shared_cluster.model(name, "fault", *request.param)
    for frontend in frontends:
        frontend.wait_for_model(name)
    return str(name)


def cold(*options: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("model", [options], indirect=True, ids=["cold"])


@dataclass
class Heard:
    """What a client read, and when."""

    status: int = 0
    first_byte_s: float = 0.0
    pauses_s: list[float] = field(default_factory=list)
    loading: list[dict[str, Any]] = field(default_factory=list)
    data: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        chunks = [json.loads(line)["choices"][0]["delta"] for line in self.data[:-1]]
        return "".join(chunk.get("content", "") for chunk in chunks)


@contextmanager
def streamed(frontend: Frontend, model: str, headers: dict[str, str] = ASKED) -> Iterator[httpx2.Response]:
    body = {"model": model, "messages": QUESTION, "stream": True}
    headers = {"Authorization": f"Bearer {API_KEY}", **headers}
    with plain_http.stream(
        "POST", frontend.url + "/v1/chat/completions", json=body, headers=headers, timeout=LIMIT_S
    ) as response:
        yield response


def listen(frontend: Frontend, model: str) -> Heard:
    heard, last = Heard(), time.monotonic()
    with streamed(frontend, model) as response:
        heard.status = response.status_code
        for line in response.iter_lines():
            if not line:
                continue
            now = time.monotonic()
            heard.pauses_s.append(now - last)
            last = now
            if line.startswith(": loading "):
                heard.loading.append(json.loads(line.removeprefix(": loading ")))
            elif line.startswith("data: "):
                heard.data.append(line.removeprefix("data: "))
    heard.first_byte_s = heard.pauses_s[0]
    return heard


def client(frontend: Frontend) -> openai.OpenAI:
    return openai.OpenAI(base_url=frontend.url + "/v1", api_key=API_KEY)


def the_load(frontend: Frontend, model: str) -> dict[str, Any]:
    (job,) = frontend.jobs(kind="model.load", subject=model)
    assert job["attempts"] == 1
    return job


@cold("load_delay:7s", "tokens:5")
def test_a_cold_stream_is_told_at_once_and_in_order_on_both_frontends_and_then_answered(
    frontends: tuple[Frontend, Frontend], model: str
) -> None:
    with ThreadPoolExecutor(3) as pool:
        told = [pool.submit(listen, frontend, model) for frontend in frontends]
        usual = pool.submit(frontends[0].chat, model, stream=True)
        refused, heard = usual.result(), [one.result() for one in told]
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "model_loading"), "without the header"
    job = the_load(frontends[0], model)
    for one in heard:
        assert one.status == 200
        # The machine is shared: bounds that a stream without comments, which begins with the first token, is beyond.
        assert one.first_byte_s < 3, "told at once"
        assert max(one.pauses_s) < 6, "and every few seconds"
        order = [PHASES.index(status["state"]) for status in one.loading]
        assert order == sorted(order) and order[-1] == PHASES.index("loading")
        assert {status["job_id"] for status in one.loading} == {job["id"]}
        assert one.data[-1] == "[DONE]"
        assert one.text == f"{model} says: tok1 tok2 tok3 tok4 tok5"
    warm = listen(frontends[0], model)
    assert warm.loading == [] and warm.text == heard[0].text


@cold("load_delay:3s", "tokens:4")
def test_lj_12_the_openai_client_reads_such_a_stream_unchanged(
    frontends: tuple[Frontend, Frontend], model: str
) -> None:
    with client(frontends[0]) as api:
        chunks = list(
            api.chat.completions.create(model=model, messages=QUESTION, stream=True, extra_headers=ASKED)  # type: ignore[call-overload]
        )
        text = list(api.completions.create(model=model, prompt="hello", stream=True, extra_headers=ASKED))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == f"{model} says: tok1 tok2 tok3 tok4"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert "".join(chunk.choices[0].text for chunk in text) == f"{model} says: tok1 tok2 tok3 tok4"
    the_load(frontends[0], model)


@cold("load_delay:2s", "load_fail:the weights are cursed")
def test_i6_a_load_that_fails_ends_every_stream_with_its_cause(
    frontends: tuple[Frontend, Frontend], model: str
) -> None:
    def ask(frontend: Frontend) -> openai.APIError:
        with client(frontend) as api, pytest.raises(openai.APIError) as caught:
            list(api.chat.completions.create(model=model, messages=QUESTION, stream=True, extra_headers=ASKED))  # type: ignore[call-overload]
        return caught.value

    with ThreadPoolExecutor(3) as pool:
        raw = pool.submit(listen, frontends[0], model)
        errors = list(pool.map(ask, frontends))
    heard = raw.result()
    assert heard.status == 200 and heard.loading
    body, end = json.loads(heard.data[0]), heard.data[1:]
    assert end == ["[DONE]"]
    assert (body["error"]["code"], body["error"]["type"]) == ("model_load_failed", "model_load_failed")
    assert "the weights are cursed" in body["error"]["message"]
    assert body["loading"]["state"] == "failed" and body["loading"]["retry_after"] >= 1
    assert {error.message for error in errors} == {body["error"]["message"]}
    assert {error.code for error in errors} == {"model_load_failed"}
    job = the_load(frontends[0], model)
    assert (job["id"], job["state"]) == (body["loading"]["job_id"], "failed")

    held = frontends[1].post(
        "/v1/chat/completions", {"model": model, "messages": QUESTION, "stream": True}, headers=ASKED
    )
    if held.status_code == 503:  # else its hold of three seconds is over, and the next attempt is told
        assert held.json()["error"] == body["error"]
        assert 1 <= int(held.headers["Retry-After"]) <= 3


@cold("load_delay:5s")
def test_lj_02_a_client_that_leaves_its_stream_ends_its_wait_and_not_the_load(
    frontends: tuple[Frontend, Frontend], model: str
) -> None:
    with streamed(frontends[0], model) as response:
        lines = response.iter_lines()  # dropping it would end the connection
        assert any(line.startswith(": loading ") for line in lines)
        assert waiters(frontends[0], model) == 1
    wait_for("the wait is over", lambda: waiters(frontends[0], model) == 0, limit_s=2)
    heard = listen(frontends[1], model)
    assert heard.loading and heard.data[-1] == "[DONE]"
    the_load(frontends[1], model)


def waiters(frontend: Frontend, model: str) -> float:
    for line in frontend.get("/metrics").text.splitlines():
        if line.startswith("localai_waiters{") and model in line:
            return float(line.rpartition(" ")[2])
    return 0.0


def test_a_bad_value_of_the_header_is_a_400_and_loads_nothing(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    shared_cluster.model("untouched", "fault")
    frontends[0].wait_for_model("untouched")
    with streamed(frontends[0], "untouched", {"X-LocalAI-Loading": "maybe"}) as response:
        response.read()
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "X-LocalAI-Loading"
    assert "'maybe' cannot be used; accepted: stream, or off" in response.json()["error"]["message"]
    assert frontends[0].jobs(kind="model.load", subject="untouched") == []


def test_what_a_model_is_not_for_is_refused_before_it_loads(
    shared_cluster: Cluster, frontends: tuple[Frontend, Frontend]
) -> None:
    shared_cluster.model("encoder", "fault", known_usecases=["embeddings"])
    frontends[0].wait_for_model("encoder")
    for headers in (ASKED, {}):
        with streamed(frontends[0], "encoder", headers) as response:
            response.read()
        assert (response.status_code, response.json()["error"]["code"]) == (400, "not_offered")
        assert "makes no text: its config lists embeddings" in response.json()["error"]["message"]
    assert frontends[0].jobs(kind="model.load", subject="encoder") == []
