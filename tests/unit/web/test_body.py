"""How a body is read: in steps between which others have their turn, and refused before it costs much."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable
from typing import Any

import gevent
import pytest
from gevent import socket as gevent_socket
from gunicorn.http.body import Body, ChunkedReader, LengthReader
from gunicorn.http.errors import InvalidChunkSize, LimitRequestHeaders, NoMoreData
from gunicorn.http.unreader import IterUnreader

from localai.clock import boottime
from tests.fakes.inference import says
from tests.fakes.web import WebBench
from web import body_pieces, turns, unread_body
from web.limits import CHUNKS

pytestmark = pytest.mark.unit

MIB = 1024 * 1024


@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/rerank"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"messages": [' + b"1," * 500_000 + b"1]}",
        b'{"input": [' + b"{}," * 200_000 + b"1]}",
        b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"documents": [' + b"1" * 4000 + b"]}",
        b"{" + b'"a":1,' * 200_000 + b'"b":1}',
    ],
    ids=["values", "containers", "depth", "digits", "names"],
)
def test_a_body_of_too_much_structure_is_413(bench: WebBench, route: str, body: bytes) -> None:
    response = bench.client.post(route, data=body, headers=bench.key())
    assert response.status_code == 413, response.text
    error = response.get_json()["error"]
    assert (error["code"], error["type"], error["param"]) == ("request_too_complex", "invalid_request_error", "body")
    assert "at most" in error["message"]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400"])
def test_a_number_that_is_none_is_400_wherever_it_stands(bench: WebBench, text: str) -> None:
    for body in (f'{{"model": "m", "x": {text}}}', f'{{"model": "m", "tools": [{{"a": [{text}]}}]}}'):
        response = bench.client.post("/v1/chat/completions", data=body.encode(), headers=bench.key())
        assert response.status_code == 400
        error = response.get_json()["error"]
        assert text in error["message"] and error["param"] == "body"


def test_a_text_of_the_size_of_a_body_may_hold_what_looks_like_structure(bench: WebBench) -> None:
    bench.model("m", says("a"))
    text = 'rows,of,a,table,"quoted": [1, 2]\n\\' * (4 * MIB // 34)
    assert bench.chat(messages=[{"role": "user", "content": text}]).status_code == 200
    ((_, options),) = bench.inference.asked
    assert (options.Messages[0].content if options.Messages else options.Prompt) == text


def test_what_is_no_character_is_replaced_in_a_long_text_too(bench: WebBench) -> None:
    bench.model("m", says("a"))
    text = "\\u0000\\ud83d\\ude00\\udfff" * 50_000
    data = f'{{"model": "m", "messages": [{{"role": "user", "content": "{text}"}}]}}'.encode()
    assert bench.client.post("/v1/chat/completions", data=data, headers=bench.key()).status_code == 200
    ((_, options),) = bench.inference.asked
    shown = options.Messages[0].content if options.Messages else options.Prompt
    assert shown == "\ufffd\U0001f600\ufffd" * 50_000


@pytest.mark.parametrize(
    "error",
    [OSError("it broke"), NoMoreData(), InvalidChunkSize(b"zz"), LimitRequestHeaders("limit")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/auth/token-login"])
def test_a_chunk_that_is_none_is_400(bench: WebBench, path: str, error: Exception) -> None:
    class Broken:
        def read(self, *_: object) -> bytes:
            raise error

    chunked = {"wsgi.input": Broken(), "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    response = bench.client.post(path, headers=bench.key(), environ_overrides=chunked)
    assert response.status_code == 400
    assert response.get_json()["error"]["param"] == "body"


def chunked(data: bytes, size: int) -> Body:
    """A body in chunks of this size, all of whose bytes are there already."""
    chunks = (data[start : start + size] for start in range(0, len(data), size))
    wire = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    return Body(ChunkedReader(object(), IterUnreader(in_reads(wire))))


def whole(data: bytes) -> Body:
    return Body(LengthReader(IterUnreader(in_reads(data)), len(data)))


def in_reads(wire: bytes) -> list[bytes]:
    """As a socket gives it."""
    return [wire[start : start + 8192] for start in range(0, len(wire), 8192)]


class Turns:
    """How often another greenlet runs during a piece of work."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._ran = 0
        other = gevent.spawn(self._run)
        turns.Turns().give_now()
        before = self._ran
        try:
            self.result = work()
            self.count = self._ran - before
        finally:
            other.kill()

    def _run(self) -> None:
        while True:
            self._ran += 1
            turns.Turns().give_now()


@pytest.fixture
def every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work gives a turn whenever it could, so that a test counts steps and measures no time."""
    monkeypatch.setattr(turns, "SLICE_S", 0.0)


@pytest.mark.usefixtures("every_turn")
@pytest.mark.parametrize("make", [lambda data: chunked(data, 1), lambda data: chunked(data, 50_000), whole])
def test_others_have_their_turn_while_a_body_is_read_that_is_there_already(make: Callable[[bytes], Body]) -> None:
    data = b"x" * 60_000
    seen = Turns(lambda: b"".join(body_pieces.pieces(make(data), 10 * MIB)))
    assert seen.result == data
    assert seen.count > 0


@pytest.mark.parametrize("make", [lambda data: chunked(data, 5), whole])
def test_no_more_of_a_body_is_read_than_was_asked_for(make: Callable[[bytes], Body]) -> None:
    body = make(b"0123456789" * 2000)
    assert b"".join(body_pieces.pieces(body, 9_999)) == (b"0123456789" * 1000)[:-1]
    assert b"".join(body_pieces.pieces(body, 2)) == b"90"


@pytest.mark.usefixtures("every_turn")
def test_others_have_their_turn_while_a_refused_body_is_read_on() -> None:
    request = Unread(chunked(b"x" * 30_000, 1))
    assert Turns(lambda: unread_body.finish(request)).count > 1
    assert not request.closed


def test_a_connection_whose_body_breaks_after_the_answer_is_closed() -> None:
    for wire in (b"zz\r\n", b"1\r\nxyz\r\n", b""):
        request = Unread(Body(ChunkedReader(object(), IterUnreader(in_reads(wire)))))
        unread_body.finish(request)
        assert request.closed and request.unreader.sock.left == 0


def test_a_connection_whose_body_broke_before_the_answer_is_closed() -> None:
    body = Body(ChunkedReader(object(), IterUnreader(in_reads(b"zz\r\n"))))
    with pytest.raises(InvalidChunkSize):
        body.read(10)
    request = Unread(body)
    unread_body.finish(request)
    assert request.closed and request.unreader.sock.left == 0


def test_a_body_of_too_many_chunks_is_413_and_is_not_parsed_on(bench: WebBench) -> None:
    body = chunked(b" " * (CHUNKS.most + 100), 1)
    environ = {"wsgi.input": body, "wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"}
    response = bench.client.post("/v1/chat/completions", headers=bench.key(), environ_overrides=environ)
    assert response.status_code == 413
    error = response.get_json()["error"]
    assert error["code"] == "request_too_complex" and str(CHUNKS.most) in error["message"]
    request = Unread(body)
    unread_body.finish(request)
    assert request.closed and request.unreader.sock.left == 0


def test_a_refused_body_of_too_many_chunks_is_not_parsed_to_its_end() -> None:
    request = Unread(chunked(b" " * (CHUNKS.most + 100), 1))
    unread_body.finish(request)
    assert request.closed and request.unreader.sock.left == 0


class Connection:
    """Bytes that its client goes on sending."""

    def __init__(self) -> None:
        self.left, self.ended = 200_000, False

    def shutdown(self, how: int) -> None:
        self.ended = how == socket.SHUT_WR

    def recv(self, size: int) -> bytes:
        assert self.ended, "the client has been told that nothing more comes"
        piece = bytes(min(size, self.left))
        self.left -= len(piece)
        return piece


class Unreader:
    def __init__(self) -> None:
        self.sock: Any = Connection()


class Unread:
    """A request of gunicorn."""

    def __init__(self, body: Body) -> None:
        self.body, self.closed, self.unreader = body, False, Unreader()

    def force_close(self) -> None:
        self.closed = True


@pytest.mark.usefixtures("every_turn")
def test_others_have_their_turn_while_a_body_is_counted_and_checked(bench: WebBench) -> None:
    bench.model("m", says("a"))
    messages = [{"role": "user", "content": "x"}] * 300
    assert Turns(lambda: bench.chat(messages=messages)).count >= 300
    body = {"model": "m", "messages": [{"role": "user", "content": "[" * MIB}]}
    assert Turns(lambda: bench.post("/v1/chat/completions", body)).count > MIB // (128 * 1024)


def test_a_turn_is_given_after_a_slice_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(turns, "boottime", lambda: now[0])
    given = turns.Turns()
    assert Turns(given.give).count == 0
    now[0] += turns.SLICE_S
    assert Turns(given.give).count == 1
    assert Turns(given.give).count == 0
    assert Turns(given.give_now).count == 1


def test_the_text_of_an_error_costs_no_more_if_the_value_is_large(bench: WebBench) -> None:
    began = boottime()
    for value in ("x" * MIB, ["x" * MIB] * 2, {"k" * MIB: 1}, [[[["x" * MIB]]]]):
        response = bench.post("/v1/chat/completions", {"model": "m", "messages": value})
        assert response.status_code == 400
        assert len(response.data) < 1000
    assert boottime() - began < 30


def test_a_broken_text_is_still_no_json(bench: WebBench) -> None:
    response = bench.client.post("/v1/chat/completions", data=io.BytesIO(b'{"model": "m'), headers=bench.key())
    assert response.status_code == 400 and "not JSON" in json.loads(response.data)["error"]["message"]


def test_a_turn_is_one_of_those_too_who_wait_for_the_network() -> None:
    """After a pause of zero the loop goes on with the same work, up to fifty times, before it looks at its sockets."""
    left, right = gevent_socket.socketpair()
    with left, right:
        reader = gevent.spawn(right.recv, 1)
        turns.Turns().give_now()
        left.send(b"x")
        for _ in range(3):
            turns.Turns().give_now()
        assert reader.ready()
        reader.kill()
