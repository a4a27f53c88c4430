"""What a request leaves in the figures, and what it cannot leave there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from localai import metrics
from protos import backend_pb2
from tests.fakes.inference import Asked, Silent, embeds, fails, says
from tests.fakes.web import WebBench
from tests.unit.metrics.test_table import value
from web.account import Account, current_account, open_account
from web.fan_out import SharedWatch, side_by_side

pytestmark = pytest.mark.unit


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[WebBench]:
    bench = WebBench(tmp_path)
    yield bench
    bench.inference.close()


def requests_of(model: str, outcome: str, node: str = "") -> float:
    return value("localai_requests_total", model=model, node=node, outcome=outcome)


def test_metrics_need_a_key_and_come_in_the_format_of_prometheus(bench: WebBench) -> None:
    assert bench.client.get("/metrics").status_code == 401
    response = bench.get("/metrics")
    assert response.status_code == 200
    assert response.content_type == metrics.CONTENT_TYPE
    assert "localai_build_info{version=" in response.get_data(as_text=True)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_counted_under_its_model_and_its_node(bench: WebBench, stream: bool) -> None:
    name = f"counted-{stream}"
    node = bench.model(name, says("a", "b")).node_name
    bench.chat(name, stream=stream)
    assert requests_of(name, "ok", node) == 1
    assert value("localai_time_to_first_token_seconds_count", model=name) == float(stream)


def test_a_name_that_only_a_client_knows_is_in_no_figure(bench: WebBench) -> None:
    bench.chat("stranger-to-all")
    bench.client.open("/no/such/stranger", method="BREW", headers=bench.key())
    bench.get("/api/models/stranger-to-all/load-status")
    text = bench.get("/metrics").get_data(as_text=True)
    assert "stranger" not in text and "BREW" not in text
    assert value("api_call_count", method="(other)", path="(none)", outcome="client_error") >= 1


def test_every_end_of_an_answer_has_its_word(bench: WebBench) -> None:
    node = bench.model("word-loads").node_name
    bench.chat("word-loads")
    assert requests_of("word-loads", "loading") == 1

    bench.model("word-refuses", fails(grpc.StatusCode.INVALID_ARGUMENT, "too long"))
    bench.chat("word-refuses")
    assert requests_of("word-refuses", "refused", node) == 1

    bench.model("word-breaks", fails(grpc.StatusCode.INTERNAL, "no", after=("a",)))
    bench.chat("word-breaks", stream=True)
    assert requests_of("word-breaks", "failed", node) == 1


def test_a_stream_whose_client_leaves_is_cancelled_and_not_ok(bench: WebBench) -> None:
    script = Silent("first")
    node = bench.model("left", script).node_name
    body = {"model": "left", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    response = bench.post("/v1/chat/completions", body, buffered=False)
    assert next(response.iter_encoded())
    response.close()
    assert requests_of("left", "cancelled", node) == 1
    assert requests_of("left", "ok", node) == 0


def test_overhead_leaves_out_the_model_s_own_time(bench: WebBench) -> None:
    def slow(asked: Asked) -> Iterator[backend_pb2.Reply]:
        asked.over.wait(0.2)
        yield from says("a")(asked)

    bench.model("slow", slow)
    before = value("localai_router_overhead_seconds_sum")
    bench.chat("slow")
    spent = value("localai_router_overhead_seconds_sum") - before
    assert 0 < spent < 0.2


def test_nobody_waits_once_the_answer_is_given(bench: WebBench) -> None:
    bench.model("waits")
    bench.chat("waits")
    assert value("localai_waiters", model="waits") == 0


def test_calls_side_by_side_count_for_the_request_and_their_time_once(bench: WebBench) -> None:
    node = bench.model("vectors", embeds(lambda asked: [1.0])).node_name
    before = value("localai_router_overhead_seconds_sum")
    response = bench.post("/v1/embeddings", {"model": "vectors", "input": ["a", "b", "c"]})
    assert response.status_code == 200
    assert requests_of("vectors", "ok", node) == 1
    assert value("localai_router_overhead_seconds_sum") > before


def test_calls_that_run_side_by_side_share_the_account_of_their_request() -> None:
    account = open_account()
    watch = SharedWatch()
    assert side_by_side([1, 2, 3], lambda item, watch: current_account(), watch, width=2) == [account] * 3


def test_time_elsewhere_is_counted_once_where_it_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("web.account.boottime", lambda: now[0])
    account = Account()
    with account.elsewhere():
        now[0] = 1.0
        with account.elsewhere():
            now[0] = 2.0
        now[0] = 3.0
    assert account.elsewhere_s == 3.0
