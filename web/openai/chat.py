"""POST /v1/chat/completions: check, convert, have a replica answer, whole or streamed."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial

from flask import Blueprint, Response, jsonify, request

from localai import logs
from localai.errors import CallCancelled, LocalAIError
from localai.ids import new_id
from localai.inference.convert import predict_options
from localai.inference.streams import AnswerReader, whole
from localai.models.config import ModelConfig
from protos import backend_pb2
from web.access import Access, open_to
from web.body import read_json_object, takes
from web.client_watch import ClientWatch
from web.cold_stream import wants_loading
from web.errors import stream_body
from web.openai.answers import DONE, Chunks, Head, completion, sse, usage_of
from web.openai.defaults import chat_defaults
from web.openai.models import usable_config
from web.openai.responses import cold_stream, named
from web.request_log import note, request_id
from web.schemas.chat import ChatCall, read_chat
from web.services import services
from web.serving import AnswerStream
from web.sse import stream as stream_events
from web.usecases import Use

log = logs.get(__name__)

blueprint = Blueprint("openai_chat", __name__)


@blueprint.post("/v1/chat/completions")
@blueprint.post("/chat/completions")
@open_to(Access.USER)
@takes(None)
def chat_completions() -> Response:
    call = read_chat(read_json_object(), request_id())
    note(model=call.model)
    config = usable_config(call.model, Use.TEXT)
    options = predict_options(call.request, chat_defaults(config))
    watch = ClientWatch.of(request.environ)
    answering = _Answering(
        call=call,
        limit=options.Tokens,
        head=Head(id=new_id(), created=int(time.time()), model=call.model),
        timings="Extra-Usage" in request.headers,
    )
    if call.stream:
        return _streamed(answering, config, options, watch)
    with watch:
        answer = services().serving.predict(config, options, watch)
    reader = AnswerReader()
    part = whole([reader.read(answer.reply), reader.rest()])
    reason = reader.finish_reason(answer.finish_reason, options.Tokens)
    usage = usage_of(reader.usage(), timings=answering.timings)
    return named(jsonify(completion(answering.head, part, reason, usage)), answer.node_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answering:
    """What an answer needs to know of its request."""

    call: ChatCall
    limit: int
    head: Head
    timings: bool


def _streamed(
    answering: _Answering, config: ModelConfig, options: backend_pb2.PredictOptions, watch: ClientWatch
) -> Response:
    serving, shows_loading = services().serving, wants_loading(config)
    stream: AnswerStream | None
    try:
        if shows_loading:
            stream = serving.warm_stream(config, options, watch)
        else:
            stream = serving.stream(config, options, watch)
    except BaseException:
        watch.close()
        raise
    if stream is None:
        return cold_stream(
            lambda tell, lent: serving.told_stream(config, options, lent, tell), watch, partial(_events, answering)
        )
    return named(stream_events(_events(answering, stream), watch, stream.close), stream.node_id)


def _events(answering: _Answering, stream: AnswerStream) -> Generator[bytes]:
    chunks, reader = Chunks(answering.head), AnswerReader()
    first = chunks.role()
    try:
        for reply in stream:
            part = reader.read(reply)
            if part:
                yield first + chunks.part(part)
                first = b""
        if rest := reader.rest():
            yield first + chunks.part(rest)
            first = b""
        reason = reader.finish_reason(stream.finish_reason(), answering.limit)
        last = first + chunks.finish(reason)
        if answering.call.include_usage:
            last += chunks.usage(usage_of(reader.usage(), timings=answering.timings))
        yield last + DONE
    except CallCancelled:
        raise  # the response cuts the stream
    except LocalAIError as error:
        log.warning("a streamed answer broke: %s", error.message)
        yield sse(stream_body(error)) + DONE
