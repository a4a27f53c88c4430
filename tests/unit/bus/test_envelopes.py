"""Payloads survive the wire, and what is no payload is told apart from an empty one."""

from __future__ import annotations

import pytest

from localai.bus.counters import BusCounters
from localai.bus.envelopes import MalformedPayloadError, decode, encode
from localai.bus.exchange import answer_of, answered
from localai.errors import NodeUnreachable, WorkerRefused

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("payload", [{}, {"n": 2**63 + 1}, {"text": "ü\ud800"}, {"deep": [{"a": None}, 1.5, True]}])
def test_a_payload_survives_the_wire(payload: dict[str, object]) -> None:
    assert decode(encode(payload)) == payload


@pytest.mark.parametrize("data", [b"", b"null", b" null "])
def test_nothing_and_null_are_the_empty_payload(data: bytes) -> None:
    assert decode(data) == {}


@pytest.mark.parametrize("data", [b"[]", b"1", b'"x"', b"{", b"\xff", b"true", b"[" * 100_000])
def test_what_is_no_object_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedPayloadError):
        decode(data)


@pytest.mark.parametrize("payload", [{"n": float("nan")}, {"n": object()}])
def test_what_json_cannot_carry_is_the_senders_fault(payload: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(payload)


def test_bu_04_only_a_readable_error_is_the_workers_word() -> None:
    counters = BusCounters()
    with pytest.raises(WorkerRefused):
        answer_of("n", b'{"error": "no"}', counters)
    with pytest.raises(NodeUnreachable):
        answer_of("n", b"<html>502</html>", counters)
    assert counters.malformed == 1
    assert answer_of("n", b'{"error": null}', counters) == {"error": None}


def test_an_answer_that_json_cannot_carry_is_a_refusal_and_no_silence() -> None:
    counters = BusCounters()
    data = answered(lambda payload: {"value": object()}, {}, counters)
    with pytest.raises(WorkerRefused):
        answer_of("n", data, counters)
    assert counters.handler_errors == 1
