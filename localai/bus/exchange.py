"""How a node's answer is made and read, the same on every bus."""

from __future__ import annotations

import logging

from localai.bus.counters import BusCounters
from localai.bus.envelopes import ERROR, MalformedPayloadError, decode, encode
from localai.bus.ports import Payload, Responder
from localai.errors import LocalAIError, NodeUnreachable, WorkerRefused

log = logging.getLogger(__name__)


def answered(responder: Responder, payload: Payload, counters: BusCounters) -> bytes:
    """The bytes a node answers with; whatever the responder raises becomes a refusal."""
    try:
        return encode(responder(payload))
    except LocalAIError as error:
        return encode({ERROR: error.message})
    except Exception as error:
        counters.handler_errors += 1
        log.exception("a request could not be answered")
        return encode({ERROR: f"internal error: {type(error).__name__}"})


def answer_of(node_id: str, data: bytes, counters: BusCounters) -> Payload:
    """What a node answered. Raises WorkerRefused, or NodeUnreachable when the bytes cannot be read.

    Bytes that nobody can read are no word of the worker: they may not change a row.
    """
    try:
        answer = decode(data)
    except MalformedPayloadError as error:
        counters.malformed += 1
        raise NodeUnreachable(node_id=node_id, cause=f"unreadable answer: {error}") from None
    if answer.get(ERROR):
        raise WorkerRefused(node_id=node_id, reason=str(answer[ERROR]))
    return answer
