"""What a worker's answer becomes for the caller of a frontend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from localai.errors import BadInput, LocalAIError, NotFound, WorkerRefused
from web import errors, worker_http
from web.worker_http import WorkerSilent, get_json, is_there

pytestmark = pytest.mark.unit


@dataclass
class Node:
    http_address: str = "127.0.0.1:50050"
    name: str = "gpu-1"


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bytes], None]:
    def answer(status: int, body: bytes) -> None:
        monkeypatch.setattr(worker_http, "_ask", lambda *_: (status, body))

    return answer


def test_a_good_answer_is_its_json(answers: Any) -> None:
    answers(200, b'["m"]')
    assert get_json(Node(), "/v1/backend-logs", "token") == ["m"]


@pytest.mark.parametrize(
    ("answer", "error", "text", "shown"),
    [
        ((404, b'{"error": "no log"}'), NotFound, "gpu-1: no log", 404),
        ((400, b'{"error": "lines: no number"}'), BadInput, "lines: no number", 400),
        ((401, b'{"error": "the token is needed"}'), WorkerRefused, "status 401: the token is needed", 502),
        ((500, b"[]"), WorkerRefused, "status 500", 502),
        ((200, b"<html>"), WorkerRefused, "no JSON", 502),
        ((200, b"[" * 900), WorkerRefused, "too much", 502),
        ((200, b"[" + b"1," * 500_000 + b"1]"), WorkerRefused, "too much", 502),
        ((400, b'{"error": "' + b"x" * 5000 + b'"}'), BadInput, "^x{1000}$", 400),
    ],
)
def test_a_refusal_keeps_the_workers_words(
    answers: Any, answer: tuple[int, bytes], error: type[LocalAIError], text: str, shown: int
) -> None:
    answers(*answer)
    with pytest.raises(error, match=text) as raised:
        get_json(Node(), "/v1/backend-logs/m", "token")
    assert errors.row_of(raised.value).status == shown


@pytest.mark.parametrize("address", ["", "no-port", "host:", ":1", "host:http"])
def test_a_node_without_an_http_server_is_said_to_have_none(address: str) -> None:
    with pytest.raises(WorkerSilent, match="did not say where") as raised:
        get_json(Node(http_address=address), "/v1/backend-logs", "token")
    assert errors.row_of(raised.value).status == 502


def test_a_text_that_cannot_be_a_host_counts_as_one_that_does_not_answer() -> None:
    assert not is_there(Node(http_address="gpu 1:1"))
    with pytest.raises(WorkerSilent, match="does not answer"):
        get_json(Node(http_address="gpu 1:1"), "/v1/backend-logs", "token")
