"""What `localai chat` makes of answers."""

from __future__ import annotations

import io
from typing import Any

import pytest

from localai.cli.chat import request_body, retry_pause_s
from localai.cli.chat_stream import Ended, Failed, Piece, read_events
from localai.cli.load_progress import Line, describe

pytestmark = pytest.mark.unit


def loading(state: str = "staging", code: str = "model_loading") -> dict[str, Any]:
    return {"error": {"message": "m", "code": code}, "loading": {"state": state}}


def chunk(text: str) -> str:
    return f'data: {{"choices": [{{"delta": {{"content": "{text}"}}}}]}}'


def test_the_pieces_of_a_stream_are_its_text() -> None:
    lines = ['data: {"choices": [{"delta": {"role": "assistant"}}]}', "", ": ping", chunk("a"), chunk("b")]
    lines += ['data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}', 'data: {"choices": [], "usage": {}}']
    assert list(read_events([*lines, "data: [DONE]", chunk("late")])) == [Piece("a"), Piece("b"), Ended()]


def test_an_error_in_a_stream_is_not_text() -> None:
    error = 'data: {"error": {"message": "the process ended", "code": "server_error"}}'
    assert list(read_events([chunk("a"), error, "data: [DONE]"])) == [Piece("a"), Failed("the process ended"), Ended()]


@pytest.mark.parametrize("lines", [[], [chunk("a")], ["data: {"]])
def test_a_stream_without_its_end_was_cut_off(lines: list[str]) -> None:
    assert isinstance(list(read_events(lines))[-1], Failed)


@pytest.mark.parametrize(
    ("status", "retry_after", "body", "pause_s"),
    [
        (503, "7", loading(), 7.0),
        (503, "0", loading(), 1.0),
        (503, "9999", loading(), 300.0),
        (503, None, loading(), 5.0),
        (503, "Wed, 21 Oct 2026 07:28:00 GMT", loading(), 5.0),
        (503, "7", loading(state="failed"), None),
        (503, "7", loading(code="model_load_failed"), None),
        (503, "7", {"error": {"code": "storage_unavailable"}}, None),
        (503, "7", None, None),
        (404, "7", loading(), None),
    ],
)
def test_only_a_load_that_goes_on_is_waited_for(
    status: int, retry_after: str | None, body: Any, pause_s: float
) -> None:
    assert retry_pause_s(status, retry_after, body) == pause_s


def test_what_was_not_asked_for_is_left_to_the_models_config() -> None:
    assert request_body("m", "hi", stream=True) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }
    full = request_body("m", "hi", stream=False, system="s", temperature=0.0, max_tokens=4)
    assert full["messages"][0] == {"role": "system", "content": "s"}
    assert (full["temperature"], full["max_tokens"]) == (0.0, 4)


def test_a_load_is_described_with_what_is_known_of_it() -> None:
    assert describe({"model": "m", "state": "pending", "total_bytes": 0}) == "m: pending"
    full = {"model": "m", "state": "staging", "node": "gpu-1", "progress": 42.4, "total_bytes": 2**30, "eta_seconds": 9}
    assert describe(full) == "m: staging, on gpu-1, 42 % of 1.0 GiB, about 9 s left"
    reading = {**full, "state": "loading", "progress": 100.0}
    assert describe(reading) == "m: loading, on gpu-1, about 9 s left", "a full count would say that nothing is left"
    assert describe({**full, "eta_low": 7, "eta_high": 12}).endswith("about 9 s left (7 to 12)")


def test_without_a_terminal_each_phase_is_one_line() -> None:
    out = io.StringIO()
    line = Line(out, changing=False)
    for key, text in (("a", "a 1"), ("a", "a 2"), ("b", "b 1")):
        line.show(key, text)
    line.close()
    line.show("c", "late")
    assert out.getvalue() == "a 1\nb 1\n"


def test_on_a_terminal_one_line_changes_and_goes() -> None:
    out = io.StringIO()
    line = Line(out, changing=True)
    line.show("a", "long text")
    line.show("a", "short")
    line.close()
    line.show("c", "late")
    assert out.getvalue() == "\rlong text\rshort    \r     \r"
